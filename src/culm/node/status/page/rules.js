// By what rule the node asks for a log, or does not.

const RULES = {
  everything: "everything, because this node follows nothing in particular",
  hoard: "everything, because this node hoards",
  own: "everything, because this node writes the log",
  log: "because this log is followed",
  author: "because its author is followed",
  unfollowed: "nothing, because it is not followed",
  blocked: "nothing, because its author is blocked, or is not on the list of those allowed",
  quota: "nothing more, because its quota is used up",
};

/** A rule in words, with its ranges where they say more than the rule. */
export function ruleWords({ by, ranges }) {
  if (by !== "log" && by !== "author") return RULES[by];
  const what = ranges.join("; ");
  return `${what === "1.." ? "everything" : what}, ${RULES[by]}`;
}
