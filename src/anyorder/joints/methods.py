"""The five constructions by name, from one pair of tables."""

from __future__ import annotations

from collections.abc import Callable

from anyorder.errors import AnyorderError, choose
from anyorder.joints.arnold_gokhale import arnold_gokhale
from anyorder.joints.hcb import hcb
from anyorder.joints.mrf import mrf
from anyorder.joints.pair import PairJoint
from anyorder.joints.passes import NO_LOGITS
from anyorder.joints.product import product
from anyorder.joints.tables import PairTables


def _mrf_logit(tables: PairTables) -> PairJoint:
    if tables.log_z_a_given_b is None or tables.log_z_b_given_a is None:
        raise AnyorderError(NO_LOGITS)
    return mrf(
        tables.log_a_given_b,
        tables.log_b_given_a,
        log_z_a_given_b=tables.log_z_a_given_b,
        log_z_b_given_a=tables.log_z_b_given_a,
    )


def _hcb(tables: PairTables) -> PairJoint:
    mode = (int(tables.log_a.argmax()), int(tables.log_b.argmax()))  # of eq 1, as in the paper
    return hcb(tables.log_a_given_b, tables.log_b_given_a, pivot=mode)


# In the order of Table 1.
METHODS: dict[str, Callable[[PairTables], PairJoint]] = {
    "mlm": lambda tables: product(tables.log_a, tables.log_b),
    "mrf-logit": _mrf_logit,
    "mrf": lambda tables: mrf(tables.log_a_given_b, tables.log_b_given_a),
    "hcb": _hcb,
    "ag": lambda tables: arnold_gokhale(tables.log_a_given_b, tables.log_b_given_a),
}


def derive(tables: PairTables, method: str) -> PairJoint:
    """The joint of ``method``, one of :data:`METHODS`."""
    return METHODS[choose(method, METHODS, "method")](tables)
