package check

import "slices"

// Names returns the invariants that every run of more than a few seeds must put to the test, as [Result.Checked] names
// them.
func Names() []string {
	return slices.Concat(names(), authorsNames(), contendersNames(), workersNames())
}

// NamesWithout returns those of Names that are put to the test without some clients: [Authors], [Contenders] or
// [Workers].
func NamesWithout(some []string) []string {
	all := names()
	if !slices.Contains(some, Authors) {
		all = append(all, authorsNames()...)
	}
	if !slices.Contains(some, Contenders) {
		all = append(all, contendersNames()...)
	}
	if !slices.Contains(some, Workers) {
		all = append(all, workersNames()...)
	}
	return all
}

// Clients that a run may leave out.
const (
	Authors    = "authors"
	Contenders = "contenders"
	Workers    = "workers"
)

// LeftOut returns all clients that a run may leave out.
func LeftOut() []string { return []string{Authors, Contenders, Workers} }

func authorsNames() []string {
	return []string{
		"I9 replay", "I9 outcome", "I9 repeat", "I9 left", "I9 reported", "I9 answered", "I9 in doubt", "I9 no effect",
		"I9 after", "I10 number", "I10 called", "I12 end", "I13 exact", "I13 seen", "I16 whole", "D5 reap", "G3", "U3 will",
		"I14 permission", "I14 quota", "I14 read", "I14 denied", "I18", "blind",
	}
}

func contendersNames() []string {
	return []string{
		"I15 alone", "I15 readers", "I15 permits", "I15 tokens", "I15 stored", "I15 late", "I15 holds", "I15 held",
		"forgone", "turn", "line", "broken ceded", "broken beside",
	}
}

func workersNames() []string {
	return []string{
		"last turn", "queue put", "queue gone", "queue finish", "queue claim", "once", "once reported", "once work",
		"counter add", "counter unknown", "counter read", "group joined", "group view", "group gone", "group at last",
		"barrier raise", "barrier lower", "barrier wait", "barrier own", "double barrier enter", "double barrier leave",
	}
}

func names() []string {
	return []string{
		"I1", "I1 certificate", "I1 term", "I1 process", "I1 move", "I1 touch", "I1 word", "I1 lost",
		"I2", "I2 silent", "I2 fail-over", "I2 commit",
		"I3", "E3", "E3 sequence", "I4", "M1", "M3", "T2", "closes", "E5", "I5", "I6", "I6 changes", "I7", "I7 order", "I8",
		"F1", "F2", "F4", "context", "reported moved", "served", "liveness", "linear",
		"I1 local", "I2 local", "I2 local silent", "I3 local", "I3 upgraded", "I4 local", "M3 local", "T2 local",
		"closes local", "I4 local token",
		"E5 local", "reported moved local", "I7 local", "I7 local order", "context local", "served local", "linear local",
		"L1 leader change", "L1 no leader", "L1 process", "L6", "L7", "L7 at once", "L7 unknown",
		"N1", "N1 again", "N1 calm", "N2", "N3", "N4", "N4 elsewhere", "N4 lagging", "R4", "reads served",
		"I9 stamp", "I9 version", "I9 refused", "I12 absent", "I13 reported", "I13 shown", "I15 sequence", "R4 tree",
		"I11", "I11 record", "I11 one-shot", "I11 one-shot waits", "I11 lost", "I13 before", "I13 view", "I13 mirror",
		"I11 sessions", "I11 veiled", "I13 before veiled", "I14 delivered veiled", "I14 hidden veiled",
		"I11 one-shot veiled", "I11 one-shot waits veiled", "I11 one-shot stays veiled", "I14 one-shot hidden veiled",
		"bound named", "bound serves others", "bound empties", "bound replay", "backup",
	}
}

// RareNames returns the invariants that only a long soak is sure to put to the test.
func RareNames() []string { return RareNamesWithout(nil) }

// RareNamesWithout is RareNames as NamesWithout is Names.
func RareNamesWithout(some []string) []string {
	all := rareNames()
	if !slices.Contains(some, Contenders) {
		all = append(all, "broken reported", "lock-delay", "lock-delay over")
	}
	if !slices.Contains(some, Workers) {
		all = append(all, "barrier received")
	}
	return all
}

func rareNames() []string {
	return []string{
		"I1 thaw", "I2 thawed", "Y3 state", "Y3 leader", "Y3 local",
		"J1 member", "J2 voter", "J3 gone", "J3 serves", "J5", "R3 voters",
		"Y1", "Y1 done", "Y1 gone", "Y1 reported", "Y4", "Y4 state", "Y4 leader", "I2 kept",
		"I14 one-shot came back veiled",
		"I2 owner lost", "I2 owner restarted", "I2 owner stalled", "I2 local stalled", "E5 local token",
		"F4 follower", "L7 fail-over", "L8", "M1 local", "N5",
	}
}
