package writes

import "holdfast/test/model/search"

// The rules, in the order of docs/tree.md.
const (
	W3Exists search.Rule = iota
	W3Attachment
	W4Ends
	W4Certainly
	W4Kept
	X2Keeps
	X2Repeat
	X2Gap
	X2Free
	X3Kept
	X3Free
	X3Newest
	X4
	X4Floor
	X4Results
	X4Numbers
	X4Unknown
	X5
	X6Void
	X7Stream
	X7Restore
	X7Refused
	X7Gap
	X7Window
	X7Answered
	X8Before
	X8Names
	X8Back
	X8First
	X8Also
	X9Instance
	X9Floor
	X9Void
)

//nolint:gochecknoglobals // a table that nothing changes
var texts = search.Protocol{
	Rules: []search.Text{
		W3Exists:     {"W3 exists", "the state applies a write of a session that has ended"},
		W3Attachment: {"W3 attachment", "the state applies a write of a former attachment"},
		W4Ends:       {"W4 ends", "a leader that does not know the outcome of a write leaves the stream open"},
		W4Certainly:  {"W4 certainly", "a leader refuses a write that it may have appended"},
		W4Kept:       {"W4 kept", "after a restore a node does not answer from kept results"},
		X2Keeps:      {"X2 keeps", "the result of an applied write is not kept"},
		X2Repeat:     {"X2 repeat", "a used number is applied again"},
		X2Gap:        {"X2 gap", "a number above the next is applied"},
		X2Free:       {"X2 free", "a number above the next is used up without effect"},
		X3Kept:       {"X3 kept", "a result is dropped when the next is kept, acknowledged or not"},
		X3Free:       {"X3 free", "a write that finds the window full uses up its number without effect"},
		X3Newest:     {"X3 newest", "a write that is sent again carries the acknowledgement of its first sending"},
		X4:           {"X4", "a move by another instance neither sets the floor nor drops results"},
		X4Floor:      {"X4 floor", "a move by another instance drops results and sets no floor"},
		X4Results:    {"X4 results", "a move by another instance sets the floor and keeps results"},
		X4Numbers:    {"X4 numbers", "a process that takes a session over continues with its own numbers"},
		X4Unknown:    {"X4 unknown", "a process counts a number as used up that its node does not know"},
		X5:           {"X5", "the state does not learn the instance of the process that opens the session"},
		X6Void:       {"X6 void", "a void uses up no number"},
		X7Stream:     {"X7 stream", "a node continues after the writes that it had sent when it opens a new stream"},
		X7Restore:    {"X7 restore", "a node continues after the writes that it had sent when it has restored a snapshot"},
		X7Refused:    {"X7 refused", "a node does not go back after a refusal of the leader"},
		X7Gap:        {"X7 gap", "a node does not go back after GAP"},
		X7Window:     {"X7 window", "a node does not go back after WINDOW"},
		X7Answered:   {"X7 even if", "a node does not go back when the refused number has been answered meanwhile"},
		X8Before:     {"X8 before", "admission refuses a write that has its number already"},
		X8Names:      {"X8 names", "a node that expects another number does not name it"},
		X8Back:       {"X8 back", "a client does not go back when its node refuses a write"},
		X8First:      {"X8 first", "the first number of an attachment may be any"},
		X8Also:       {"X8 also", "a number that the node refuses does not count as the attachment's first"},
		X9Instance:   {"X9 instance", "a process accepts the certificate as its own, whichever process had the session last"},
		X9Floor:      {"X9 floor", "a certificate has outcomes at or below the floor, too"},
		X9Void:       {"X9 void", "a certificate has outcomes of voided writes, too"},
	},
	Invariants: []string{"I9", "I10", "I18"},
}

// The properties, with their names in docs/tree.md.
const (
	// I9: a numbered write takes effect at most once, exactly once if it is answered, never if its client's answer is
	// never; and an answer is the result of the very write.
	I9 search.Invariants = 1 << iota
	// I10: the effects of a session are in the order of their numbers, and none comes after its end or under a former
	// attachment.
	I10
	// I18: each write is answered, or its connection ends.
	I18
	All = I9 | I10 | I18
)
