package route

import "slices"

// update is the effect of a change of the server list on one client.
type update struct {
	// leave is the probability of leaving the present server; 1 if that has gone.
	leave float64
	// known are the servers of both lists, added the servers of the new list alone.
	known, added []string
	// toAdded is the probability of going to one of the added servers first, for a client that leaves.
	toAdded float64
}

// PlanUpdate decides by the rules of ZooKeeper's reconfiguration (spec section 10.5), S being the number of former
// servers, o that of known and w that of added ones, N = o + w. Each former server has 1/S of all clients, and each
// present one is to have 1/N.
//
//	N >  S, mine stays   leave with 1 - S/N, to an added one    a known one keeps 1/S x S/N = 1/N
//	N >  S, mine goes    leave, to an added one                 the known ones give up more than they need already
//	N <= S, mine stays   stay                                   1/S is at most 1/N
//	N <= S, mine goes    leave, to a known one with             the known ones lack o x (1/N - 1/S), which is
//	                     o x (S-N) / (N x (S-o))                that part of the (S-o)/S that leave
func PlanUpdate(former, present []string, mine string) update {
	var u update
	for _, s := range present {
		if slices.Contains(former, s) {
			u.known = append(u.known, s)
		} else {
			u.added = append(u.added, s)
		}
	}
	was, is, known := float64(len(former)), float64(len(present)), float64(len(u.known))
	grows, stays := is > was, slices.Contains(present, mine)
	u.toAdded = 1
	switch {
	case stays && grows:
		u.leave = 1 - was/is
	case stays:
	default:
		u.leave = 1
		if !grows && was > known {
			u.toAdded = 1 - known*(was-is)/(is*(was-known))
		}
	}
	return u
}

// Order returns the servers in the order in which a leaving client tries them: each is an added server with the
// probability toAdded, and a known server otherwise; when either list is used up, the rest of the other follows.
func (u update) Order(d *Jitter) []string {
	known, added := slices.Clone(u.known), slices.Clone(u.added)
	d.Shuffle(known)
	d.Shuffle(added)
	all := make([]string, 0, len(known)+len(added))
	for len(known) > 0 && len(added) > 0 {
		from := &known
		if d.draw() < u.toAdded { // not <=: a draw of 0 must not beat a probability of 0
			from = &added
		}
		all = append(all, (*from)[0])
		*from = (*from)[1:]
	}
	return slices.Concat(all, known, added)
}

// Leaves reports the draw of a client.
func (u update) Leaves(d *Jitter) bool { return d.draw() < u.leave }
