package faults

import (
	"math/rand/v2"
)

// change has an operator change the members.
func change(f Fault, c Cluster, one string) *broken {
	var name, text string
	var done func() bool
	switch f.Kind { //nolint:exhaustive // begin handles the other kinds
	case Add:
		promote := f.Size < 0.75
		text = "have an operator add an observer, "
		if promote {
			text = "have an operator add a voter, "
		}
		name, done = c.Add(promote)
	case Demote:
		text = "have an operator demote "
		name, done = c.Demote(one)
	case Remove:
		text = "have an operator remove "
		name, done = c.Remove(one, f.Size)
	default:
		return &broken{"", "have an operator transfer leadership to " + one, c.Transfer(one)}
	}
	if name == "" {
		return nil
	}
	return &broken{name, text + name, done}
}

// Changes draws changes of the members: two nodes are added, two removed, one is demoted meanwhile, and leadership is
// transferred. They form a separate plan, like the faults of Links, for a cluster that may have more nodes.
func Changes(r *rand.Rand, nodes int) []Fault {
	var plan []Fault
	for _, k := range []Kind{Add, Demote, Remove, Add, Transfer, Remove} {
		f := long(r, nodes, k)
		f.Lasts /= 2
		f.Leads = r.IntN(3) == 0
		plan = append(plan, f)
	}
	if r.IntN(2) == 0 { // leadership is transferred in the middle of a change
		plan[4].Overlaps = true
	}
	return plan
}
