package system

import (
	"errors"
	"slices"
	"sync"
	"time"

	holdfastv1 "holdfast/proto/holdfast/v1"
)

// window is the number of a session's writes that may be without an answer (X1 numbered writes).
const window = 256

// write is a numbered write of a session. Its number is free until it is answered.
type write struct {
	number      uint64
	transaction *holdfastv1.Transaction
	done        func(error)
	answered    bool
}

// writing are the writes of a session. They are sent in the order of their numbers. When one is refused for a while, so
// are those behind it: all are sent again once every answer is in, and the while is over (X7 queue of the node, X8
// admission of writes).
type writing struct {
	session uint64
	// ask sends a write, and calls answered exactly once. It may do so at once.
	ask func(w *holdfastv1.Write, answered func(*holdfastv1.Written, error))

	mu sync.Mutex
	// waiting are the writes without an answer, of which the first were sent. All guarded by mu, like all that follows.
	waiting []*write
	sent    int
	// newest is the number of the newest write, acked that up to which all are answered.
	newest, acked uint64
	// under counts the writes that were sent, and neither answered nor refused.
	under int
	// back says that a write was refused, so that nothing is sent before all is answered; after is the wait.
	back  bool
	after time.Duration
	// sending says that a goroutine sends, so that no other does.
	sending bool
	// broken says why the session can write no more.
	broken error
}

// do makes a write.
func (w *writing) do(x *holdfastv1.Transaction, done func(error)) {
	w.mu.Lock()
	if err := w.broken; err != nil {
		w.mu.Unlock()
		done(err)
		return
	}
	w.newest++
	w.waiting = append(w.waiting, &write{number: w.newest, transaction: x, done: done})
	w.mu.Unlock()
	w.send()
}

// send sends what may be sent now.
func (w *writing) send() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sending {
		return // the sending goroutine checks again
	}
	w.sending = true
	for !w.back && w.sent < min(window, len(w.waiting)) {
		next := w.waiting[w.sent]
		w.sent++
		w.under++
		m := &holdfastv1.Write{
			SessionId: w.session, Number: next.number, Acked: w.acked, Transaction: next.transaction,
		}
		w.mu.Unlock()
		w.ask(m, func(m *holdfastv1.Written, err error) { w.answered(next, m, err) })
		w.mu.Lock()
	}
	w.sending = false
}

// answered processes the outcome of a write that was sent.
func (w *writing) answered(of *write, m *holdfastv1.Written, err error) {
	w.mu.Lock()
	w.under--
	var finished []*write
	refused, again := errors.AsType[*RefusedError](err)
	switch {
	case err == nil && of.answered: // the kept result of a write that was sent again
	case err == nil:
		of.answered, err = true, outcome(m)
		w.dropAnswered()
		finished = append(finished, of)
	case again:
		w.back, w.after = true, max(w.after, refused.After)
	default:
		w.back, w.broken = true, err // the number is free, and nothing comes behind it
		finished = slices.DeleteFunc(w.waiting, func(one *write) bool { return one.answered })
		w.waiting, w.sent = nil, 0
	}
	if w.back && w.under == 0 && w.broken == nil {
		time.AfterFunc(w.after, w.again)
		w.after = 0
	}
	w.mu.Unlock()
	for _, one := range finished {
		one.done(err)
	}
	w.send()
}

// dropAnswered drops the answered writes before the first unanswered one.
func (w *writing) dropAnswered() {
	for len(w.waiting) > 0 && w.waiting[0].answered {
		w.acked = w.waiting[0].number
		w.waiting, w.sent = w.waiting[1:], w.sent-1
	}
}

// again sends from the lowest number that is free.
func (w *writing) again() {
	w.mu.Lock()
	w.back, w.sent = false, 0
	w.mu.Unlock()
	w.send()
}

// outcome is the error of a write that the tree refused.
func outcome(m *holdfastv1.Written) error {
	switch o := m.GetOutcome(); {
	case o == nil:
		return errors.New("no outcome")
	case o.GetRefused() != nil:
		return refusal(o.GetRefused())
	default:
		return nil
	}
}
