package dispatch

import (
	"container/heap"
	"time"
)

// waitingHeap holds the requests that wait for an index, the lowest first. Reads whose index is not known yet are last.
type waitingHeap struct{ all byIndex }

type byIndex []*Request

func (b *byIndex) Len() int { return len(*b) }

func (b *byIndex) Less(i, j int) bool { return (*b)[i].awaited() < (*b)[j].awaited() }

func (b *byIndex) Swap(i, j int) {
	all := *b
	all[i], all[j] = all[j], all[i]
	all[i].place, all[j].place = i+1, j+1
}

func (b *byIndex) Push(x any) {
	if p, ok := x.(*Request); ok {
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

// awaited returns the index for which a request waits; the largest if it is not known yet.
func (p *Request) awaited() uint64 {
	if p.awaitsIndex {
		return ^uint64(0)
	}
	return p.index
}

// add adds a request, or moves it to its present position.
func (d *waitingHeap) add(p *Request) {
	if p.place == 0 {
		heap.Push(&d.all, p)
		return
	}
	heap.Fix(&d.all, p.place-1)
}

// remove removes a request if it is in the heap.
func (d *waitingHeap) remove(p *Request) {
	if p.place > 0 {
		heap.Remove(&d.all, p.place-1)
	}
}

// reached removes and returns one of the requests that wait for at most index; nil for none.
func (d *waitingHeap) reached(index uint64) *Request {
	if len(d.all) == 0 || d.all[0].awaited() > index {
		return nil
	}
	p := d.all[0]
	d.remove(p)
	return p
}

// late removes and returns the requests whose wait has expired at now.
func (d *waitingHeap) late(now time.Time) (late []*Request) {
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
