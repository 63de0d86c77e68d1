package pending

import (
	"container/heap"
	"time"
)

// timer is the next time to process a queue: the end of a wait, or when its session has been quiet.
type timer struct {
	at time.Time
	// place is one more than the index in the heap; 0 while the timer is not set.
	place int
}

// timers are the queues whose timers are set, as a heap.
type timers []*queue

// Len implements [heap.Interface].
func (h *timers) Len() int { return len(*h) }

// Less implements [heap.Interface].
func (h *timers) Less(i, j int) bool { return (*h)[i].timer.at.Before((*h)[j].timer.at) }

// Swap implements [heap.Interface].
func (h *timers) Swap(i, j int) {
	all := *h
	all[i], all[j] = all[j], all[i]
	all[i].timer.place, all[j].timer.place = i+1, j+1
}

// Push implements [heap.Interface].
func (h *timers) Push(x any) {
	q := x.(*queue) //nolint:errcheck,forcetypeassert // only set pushes
	*h = append(*h, q)
	q.timer.place = len(*h)
}

// Pop implements [heap.Interface].
func (h *timers) Pop() any {
	last := len(*h) - 1
	q := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	q.timer.place = 0
	return q
}

// set sets or changes the timer of a queue.
func (h *timers) set(q *queue, at time.Time) {
	q.timer.at = at
	if q.timer.place == 0 {
		heap.Push(h, q)
		return
	}
	heap.Fix(h, q.timer.place-1)
}

func (h *timers) stop(q *queue) {
	if q.timer.place > 0 {
		heap.Remove(h, q.timer.place-1)
	}
}

// due removes and returns a queue whose timer has expired; nil for none.
func (h *timers) due(now time.Time) *queue {
	if len(*h) == 0 || (*h)[0].timer.at.After(now) {
		return nil
	}
	return heap.Pop(h).(*queue) //nolint:errcheck,forcetypeassert // only set pushes
}
