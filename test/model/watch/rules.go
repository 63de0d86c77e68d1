package watch

import "holdfast/test/model/search"

// The rules, in the order of docs/tree.md.
const (
	D2 search.Rule = iota
	G1Ring
	G1Root
	G1Answer
	G2Root
	G2Register
	G2Place
	G4Write
	G4Read
	G4Alive
	G5
	N4Seen
	I13Reads
	I13Writes
	I13Lost
	I13Top
	V2Root
	V2Once
	V2Each
	V3Restore
	V3Process
	V4Since
	V4Index
	V4Start
	V4Last
	V4Below
	V4Former
	V4Tree
	V4Had
	V4Sorts
	V4Mixed
	V4Beside
	V4First
	V4Ended
	V4Together
	V5
	V5Answers
	V6Lost
	V6Stay
	V6Parted
	V6Answer
	V6Low
	V6Sent
	V6Skip
	V6Once
	V6First
	W4Kept
)

//nolint:gochecknoglobals // a table that nothing changes
var texts = search.Protocol{
	Rules: []search.Text{
		D2:         {"D2", "the commands of a log entry have the same stamp"},
		G1Ring:     {"G1 ring", "the root is published before the ring has its changes"},
		G1Root:     {"G1 root", "a dispatcher reads the newest root at the end of a pass, not the one that it began with"},
		G1Answer:   {"G1 answer", "an answer comes before its command's events"},
		G2Root:     {"G2 root", "a read shows the newest root, not the dispatcher's"},
		G2Register: {"G2 register", "a read's watch is registered later than the root is read"},
		G2Place:    {"G2 place", "the answer's place is reserved later than the watch is registered"},
		G4Write:    {"G4 write", "a write's answer carries the root of the dispatcher before it"},
		G4Read:     {"G4 read", "a read's answer carries the newest root's stamp, not the dispatcher's"},
		G4Alive:    {"G4 keep-alive", "a keep-alive's answer carries the dispatcher's stamp, not the newest one delivered"},
		G5:         {"G5", "a session's requests are served by a dispatcher that has not reached the index of its move"},
		N4Seen:     {"N4", "a read does not wait for what the client has seen"},
		I13Reads:   {"I13 reads", "a client reads while watches catch up with a former connection"},
		I13Writes:  {"I13 writes", "a client writes while watches catch up with a former connection"},
		I13Lost:    {"I13 LOST", "events that a LOST covers are delivered after it"},
		I13Top:     {"I13 top", "events that a delivered LOST covers are delivered on another connection"},
		V2Root:     {"V2 root", "a watch receives the changes of the root that it is registered with"},
		V2Once:     {"V2 once", "a one-shot stays at its node when it has fired"},
		V2Each:     {"V2 each", "an event is sent once for each watch that it matches"},
		V3Restore:  {"V3 restore", "a ring continues over a restored snapshot"},
		V3Process:  {"V3 process", "the ring of a new process starts at 0"},
		V4Since:    {"V4 s", "a client resumes from the highest stamp seen, not from the highest delivered"},
		V4Index:    {"V4 index", "a dispatcher resumes watches before it has reached s"},
		V4Start:    {"V4 start", "a dispatcher sends what its ring has, also if s is below start"},
		V4Last:     {"V4 last", "delivered rises at the node with the first event of a stamp"},
		V4Below:    {"V4 below", "delivered rises at the client with the first event of a stamp"},
		V4Former:   {"V4 former", "a client accepts a reported stamp while its resume is unanswered"},
		V4Tree:     {"V4 tree", "one-shots are registered again without reading the tree"},
		V4Had:      {"V4 had", "the SDK does not drop events that it had"},
		V4Sorts:    {"V4 order", "the SDK does not sort live and replayed events"},
		V4Mixed:    {"V4 mixed", "the SDK delivers an event twice that came live and in the replay"},
		V4Beside:   {"V4 beside", "a read sets a one-shot through another connection than the one that has the watches"},
		V4First:    {"V4 first", "new watches are requested while others catch up"},
		V4Ended:    {"V4 ended", "the SDK does not wait for the missed events of a watch that has ended"},
		V4Together: {"V4 together", "the watches of the first of two questions are resumed before the second is answered"},
		V5:         {"V5", "an idle connection is sent no stamp"},
		V5Answers:  {"V5 answers", "an answer does not raise delivered at the client"},
		V6Lost:     {"V6 LOST", "events are dropped without a LOST"},
		V6Stay:     {"V6 stay", "LOST replaces events of one-shots, too"},
		V6Parted:   {"V6 parted", "a LOST covers the event of a one-shot behind it"},
		V6Answer:   {"V6 answer", "events join a LOST in front of an answer"},
		V6Low:      {"V6 low", "a LOST that older events join is delivered as if it covered none of them"},
		V6Sent:     {"V6 sent", "the last LOST has the stamp of the last replaced event"},
		V6Skip:     {"V6 skip", "a dispatcher that skips changes sends no LOST"},
		V6Once:     {"V6 one-shots", "a dispatcher that skips changes fires no one-shots"},
		V6First:    {"V6 first", "a dispatcher that skips changes fires one-shots before it sends LOST"},
		W4Kept:     {"W4 kept", "a dispatcher that skips changes does not answer writes from kept results"},
	},
	Invariants: []string{"I11", "I13", "I18", "V5"},
}

// The properties, with their names in docs/tree.md. Resumable is the purpose of V5.
const (
	// I11: each change that a watch matches is delivered in order and once, or covered by a LOST. A one-shot fires
	// once, and only with a change after its registration.
	I11 search.Invariants = 1 << iota
	// I13: no answer comes before the events that it shows, no read shows less than an earlier answer, and the stamps
	// of a watch's events never fall.
	I13
	// I18: each request is answered, or its connection ends.
	I18
	// Resumable: a client that has received everything can resume without a LOST.
	Resumable
	All = I11 | I13 | I18 | Resumable
)
