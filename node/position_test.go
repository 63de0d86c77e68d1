package node

import (
	"math/rand/v2"
	"slices"
	"testing"

	"holdfast/transport/raftnet"
)

// walker is a directory in a random walk: its term, whom it voted for in it, and the terms of its entries.
type walker struct {
	term   uint64
	voted  int
	log    []uint64
	leads  bool
	commit int
}

func (w *walker) at(index int) uint64 {
	if index == 0 {
		return 0
	}
	return w.log[index-1]
}

func (w *walker) position() raftnet.Position {
	return raftnet.PositionIn(w.term, uint64(len(w.log)), w.at(len(w.log)))
}

func (w *walker) enter(term uint64) {
	if term > w.term {
		w.term, w.voted, w.leads = term, -1, false
	}
}

// walk is a cluster in which directories elect, append and acknowledge as Raft does, with requests of any length, lost
// requests and old leaders that go on. known is what each keeps of the others.
type walk struct {
	*rand.Rand
	nodes []*walker
	known [][]raftnet.Position
	// copies are older copies of each directory; later has, for each, what was acknowledged to a node since that the copy
	// lacks and that counts for a commit.
	copies []*walker
	later  [][]bool
}

func (w *walk) saw(node, of int, at raftnet.Position) {
	if w.known[node][of].Behind(at) {
		w.known[node][of] = at
	}
}

// acknowledged notes that a directory has acknowledged an entry to a leader, as the leader's witness does.
func (w *walk) acknowledged(lead, of, index int) {
	l := w.nodes[lead]
	w.saw(lead, of, raftnet.PositionIn(l.term, uint64(index), l.at(index)))
	c := w.copies[of]
	if l.at(index) == l.term && (len(c.log) < index || c.at(index) != l.term) {
		w.later[of][lead] = true
	}
}

func (w *walk) step() {
	n, m := w.IntN(len(w.nodes)), w.IntN(len(w.nodes))
	a, b := w.nodes[n], w.nodes[m]
	switch w.IntN(8) {
	case 0: // a copy
		c := *a
		c.log = slices.Clone(a.log)
		w.copies[n], w.later[n] = &c, make([]bool, len(w.nodes))
	case 1: // a candidate asks some
		if a.leads {
			return
		}
		a.enter(a.term + 1)
		a.voted = n
		votes := 1
		for i, v := range w.nodes {
			if i == n || w.IntN(3) == 0 || v.term > a.term {
				continue
			}
			v.enter(a.term)
			last, own := a.at(len(a.log)), v.at(len(v.log))
			if (v.voted < 0 || v.voted == n) && (last > own || last == own && len(a.log) >= len(v.log)) {
				v.voted = n
				w.saw(n, i, raftnet.Position{Term: a.term})
				votes++
			}
		}
		if a.leads = votes > len(w.nodes)/2; a.leads {
			a.log = append(a.log, a.term)
		}
	case 2:
		if a.leads {
			a.log = append(a.log, a.term)
		}
	case 3: // a heartbeat over the stream of rounds, of a leader that has committed an entry of its term
		if a.leads && n != m && a.commit > 0 && a.at(a.commit) == a.term {
			w.saw(m, n, raftnet.Position{Term: a.term, Index: uint64(a.commit)})
		}
	default: // some entries
		if !a.leads || n == m || b.term > a.term {
			return
		}
		b.enter(a.term)
		previous := w.IntN(min(len(a.log), len(b.log)) + 1)
		if a.at(previous) != b.at(previous) {
			return
		}
		end := min(len(a.log), previous+w.IntN(4))
		for i := previous + 1; i <= end; i++ {
			if i <= len(b.log) && b.at(i) != a.at(i) {
				b.log = b.log[:i-1]
			}
			if i > len(b.log) {
				b.log = append(b.log, a.at(i))
			}
		}
		w.acknowledged(n, m, end)
		held := 0
		for i, v := range w.nodes {
			if i == n || len(v.log) >= end && end > 0 && v.at(end) == a.term && v.term >= a.term {
				held++
			}
		}
		if end > 0 && a.at(end) == a.term && held > len(w.nodes)/2 {
			a.commit = max(a.commit, end)
		}
	}
}

// J6: in random histories of Raft no directory is ever behind what another one knows of it, and an older copy is behind
// each node to which the directory has acknowledged, since, what the copy lacks and a commit may rest on.
func TestJ6AnHonestDirectoryIsNeverBehind(t *testing.T) {
	found := 0
	for seed := range uint64(2000) {
		w := &walk{Rand: rand.New(rand.NewPCG(seed, 6))}
		for range 3 + 2*int(seed%2) {
			w.nodes = append(w.nodes, &walker{voted: -1})
			w.copies = append(w.copies, &walker{voted: -1})
		}
		for range w.nodes {
			w.known = append(w.known, make([]raftnet.Position, len(w.nodes)))
			w.later = append(w.later, make([]bool, len(w.nodes)))
		}
		for range 300 {
			w.step()
			for i, n := range w.nodes {
				for j := range w.nodes {
					if n.position().Behind(w.known[j][i]) {
						t.Fatalf("seed %d: directory %d is at %v, and node %d knows %v of it", seed, i, n.position(), j,
							w.known[j][i])
					}
					if !w.later[i][j] {
						continue
					}
					found++
					if at := w.copies[i].position(); !at.Behind(w.known[j][i]) {
						t.Fatalf("seed %d: an older copy of directory %d is at %v, and node %d knows %v", seed, i, at, j,
							w.known[j][i])
					}
				}
			}
		}
	}
	if found < 10_000 {
		t.Errorf("only %d copies were to be found", found)
	}
}
