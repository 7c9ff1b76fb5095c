"""Explicit joints over a few positions from a model's conditionals (Torroba Hennigen & Kim 2023)."""

from anyorder.joints.arnold_gokhale import arnold_gokhale
from anyorder.joints.hcb import hcb
from anyorder.joints.many import many, many_tables
from anyorder.joints.methods import METHODS, derive
from anyorder.joints.mrf import mrf
from anyorder.joints.pair import PairJoint
from anyorder.joints.product import product
from anyorder.joints.support import adaptive_joint
from anyorder.joints.support_joint import SupportJoint
from anyorder.joints.tables import PairTables, pair_tables

__all__ = [
    "METHODS",
    "PairJoint",
    "PairTables",
    "SupportJoint",
    "adaptive_joint",
    "arnold_gokhale",
    "derive",
    "hcb",
    "many",
    "many_tables",
    "mrf",
    "pair_tables",
    "product",
]
