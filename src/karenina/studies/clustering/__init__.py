"""The clustering study: does a better representation make an agent learn faster?"""

from karenina.studies.clustering.plan import Plan, plan_for
from karenina.studies.clustering.study import Study, read_json, write_json

__all__ = ["Plan", "Study", "plan_for", "read_json", "write_json"]
