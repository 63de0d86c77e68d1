package clientport

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"holdfast/session"
	"holdfast/tree"
)

// removal, refusal and adoption are requests to a fakeTree, beside those that have types of their own.
type removal struct {
	key     uint64
	watches []tree.WatchSpec
}

type refusal struct {
	key, number uint64
	id          session.ID
	why         error
}

type adoption struct{ token session.Token }

// fakeTree is a session.TreeConnection. It records the requests, and returns the messages that respond or the test adds
// with tell.
type fakeTree struct {
	principals []tree.Principal
	notify     func()
	// respond is told of each request, in their order; its error refuses the request. Nil takes it and answers nothing.
	respond func(f *fakeTree, asked any) error

	mu     sync.Mutex
	asked  []any
	queue  []session.TreeMessage
	full   chan struct{}
	took   time.Time
	closed bool
}

// withTree gives a service a tree whose connections respond in the same way, and returns the newest connection.
func withTree(s *fakeService, respond func(f *fakeTree, asked any) error) func() *fakeTree {
	var mu sync.Mutex
	var newest *fakeTree
	s.tree = func(principals []tree.Principal, notify func()) session.TreeConnection {
		mu.Lock()
		defer mu.Unlock()
		newest = &fakeTree{principals: principals, notify: notify, respond: respond}
		return newest
	}
	return func() *fakeTree {
		mu.Lock()
		defer mu.Unlock()
		return newest
	}
}

// tell queues the next messages for the client.
func (f *fakeTree) tell(all ...session.TreeMessage) {
	f.mu.Lock()
	if len(f.queue) == 0 {
		f.took = time.Now()
	}
	f.queue = append(f.queue, all...)
	f.mu.Unlock()
	f.notify()
}

// answer queues the answer to a request.
func (f *fakeTree) answer(a session.TreeAnswer) {
	f.tell(session.TreeMessage{Answer: &a, Delivered: a.Stamp})
}

// requests returns what was asked.
func (f *fakeTree) requests() []any {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.asked)
}

func (f *fakeTree) note(asked any) error {
	f.mu.Lock()
	closed := f.closed
	if !closed {
		f.asked = append(f.asked, asked)
	}
	f.mu.Unlock()
	if closed {
		return session.ErrClosed
	}
	if f.respond == nil {
		return nil
	}
	return f.respond(f, asked)
}

func (f *fakeTree) Read(r session.TreeRead) error           { return f.note(r) }
func (f *fakeTree) AddWatches(a session.TreeAddition) error { return f.note(a) }
func (f *fakeTree) Write(w session.TreeWrite) error         { return f.note(w) }

func (f *fakeTree) RemoveWatches(key uint64, watches []tree.WatchSpec) error {
	return f.note(removal{key, watches})
}

func (f *fakeTree) Refuse(key uint64, id session.ID, number uint64, why error) error {
	return f.note(refusal{key, number, id, why})
}

func (f *fakeTree) Acknowledge(all []session.Acknowledged) { _ = f.note(all) }

func (f *fakeTree) Adopt(_ context.Context, t session.Token) (session.Token, error) {
	return t, f.note(adoption{t})
}

func (f *fakeTree) SetPrincipals(all []tree.Principal) { f.principals = all }

func (f *fakeTree) Next(now time.Time) (session.TreeMessage, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.took = now
	if f.closed || len(f.queue) == 0 {
		return session.TreeMessage{}, false
	}
	told := f.queue[0]
	f.queue = f.queue[1:]
	return told, true
}

// fill makes the connection full; the returned function ends that.
func (f *fakeTree) fill() func() {
	f.mu.Lock()
	defer f.mu.Unlock()
	full := make(chan struct{})
	f.full = full
	return func() {
		f.mu.Lock()
		f.full = nil
		f.mu.Unlock()
		close(full)
	}
}

func (f *fakeTree) Full() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.full == nil {
		return nil
	}
	return f.full
}

func (f *fakeTree) Stuck(now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || len(f.queue) == 0 {
		return 0
	}
	return now.Sub(f.took)
}

func (f *fakeTree) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
}

// Hold counts nothing: the port holds no requests.
func (*fakeTree) Hold(int) bool { return false }

// Holding reports one watch for each that was asked for, and one byte for each waiting message.
func (f *fakeTree) Holding() (watches, unsent int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, asked := range f.asked {
		if a, ok := asked.(session.TreeAddition); ok {
			watches += len(a.Addition.Watches)
		}
	}
	return watches, len(f.queue)
}

func (f *fakeTree) isClosed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}

// stampText returns a stamp of a test, which is a small number.
func stampText(stamp uint64) string { return strconv.FormatUint(stamp, 10) }
