package lane

import (
	"container/heap"
	"time"
)

// dueHeap has the requests that wait for an index, the lowest first. Those for which the leader has not told the index
// yet are last.
type dueHeap struct{ all byIndex }

type byIndex []*Pending

func (b *byIndex) Len() int { return len(*b) }

func (b *byIndex) Less(i, j int) bool { return (*b)[i].awaited() < (*b)[j].awaited() }

func (b *byIndex) Swap(i, j int) {
	all := *b
	all[i], all[j] = all[j], all[i]
	all[i].place, all[j].place = i+1, j+1
}

func (b *byIndex) Push(x any) {
	if p, ok := x.(*Pending); ok {
		*b = append(*b, p)
		p.place = len(*b)
	}
}

func (b *byIndex) Pop() any {
	old := *b
	p := old[len(old)-1]
	old[len(old)-1] = nil
	*b, p.place = old[:len(old)-1], 0
	return p
}

// awaited returns the index that a request waits for, the largest if it is not known yet.
func (p *Pending) awaited() uint64 {
	if p.unasked {
		return ^uint64(0)
	}
	return p.index
}

// add adds a request, or puts it where it belongs now.
func (d *dueHeap) add(p *Pending) {
	if p.place == 0 {
		heap.Push(&d.all, p)
		return
	}
	heap.Fix(&d.all, p.place-1)
}

// remove removes a request if it is there.
func (d *dueHeap) remove(p *Pending) {
	if p.place > 0 {
		heap.Remove(&d.all, p.place-1)
	}
}

// reached takes out one of the requests that wait for no more than index; nil if there is none.
func (d *dueHeap) reached(index uint64) *Pending {
	if len(d.all) == 0 || d.all[0].awaited() > index {
		return nil
	}
	p := d.all[0]
	d.remove(p)
	return p
}

// late takes out the requests whose wait is over at now.
func (d *dueHeap) late(now time.Time) (late []*Pending) {
	for _, p := range d.all {
		if !p.until.IsZero() && !p.until.After(now) {
			late = append(late, p)
		}
	}
	for _, p := range late {
		d.remove(p)
	}
	return late
}
