"""A machine of a user's own, of another shape than the shipped ones."""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Annotated

import attrs

from statemachine.kinds import Integer, Text
from statemachine.machine import Creation, Invariant, Machine, Transition, Uniqueness
from statemachine.vocabulary import (
    NOW,
    Add,
    AtMost,
    Clear,
    Equal,
    Guard,
    IsNull,
    Less,
    Not,
    NotNull,
    OneOf,
    Or,
    Param,
    Put,
    Set,
    SetOnce,
    iff,
    implies,
)


class OrderState(enum.StrEnum):
    """Where an order stands."""

    PENDING = "pending"
    PAID = "paid"
    SHIPPED = "shipped"
    CANCELLED = "cancelled"


@attrs.frozen(kw_only=True)
class Order:
    """An order of a shop."""

    order_id: str
    state: OrderState
    basket: str
    reminders: Annotated[int, Integer()] = 0
    paid_at: datetime | None = None
    parcel: str | None = None
    coupon: str | None = None


PENDING, PAID, SHIPPED, CANCELLED = OrderState
order = attrs.fields(Order)
PARCEL = Param("parcel", Text())

ORDER = Machine(
    name="order",
    record=Order,
    table="orders",
    key=order.order_id,
    state=order.state,
    initial=(PENDING,),
    final=(SHIPPED, CANCELLED),
    creations=(
        Creation(
            "place",
            PENDING,
            (
                Set(order.order_id, Param("order_id", Text())),
                Set(order.basket, Param("basket", Text())),
            ),
            identity=(order.basket,),
        ),
    ),
    transitions=(
        Transition("pay", (PENDING,), PAID, assign=(SetOnce(order.paid_at, NOW),)),
        Transition(
            "remind",
            (PENDING,),
            None,
            when=(Guard("patient", Less(order.reminders, 3)),),
            assign=(Add(order.reminders),),
        ),
        Transition(
            "ship",
            (PAID,),
            SHIPPED,
            when=(Guard("no parcel", IsNull(order.parcel)),),
            assign=(Set(order.parcel, PARCEL),),
        ),
        Transition(
            "cancel",
            (PENDING, PAID),
            CANCELLED,
            assign=(Clear(order.coupon), Put(order.reminders, 0)),
        ),
    ),
    uniqueness=(
        Uniqueness(
            "one open order per basket", (order.basket,), OneOf(order.state, (PENDING, PAID))
        ),
    ),
    invariants=(
        Invariant(
            "shipped exactly with a parcel",
            iff(Equal(order.state, SHIPPED), NotNull(order.parcel)),
        ),
        Invariant(
            "nothing unpaid is shipped",
            implies(IsNull(order.paid_at), Not(OneOf(order.state, (PAID, SHIPPED)))),
        ),
        Invariant("reminders are few", Or(AtMost(order.reminders, 3), IsNull(order.coupon))),
    ),
    write_once=(order.paid_at,),
    immutable=(order.order_id, order.basket),
)
