package node

import (
	"runtime"
	"sync"

	"github.com/hashicorp/go-hclog"
)

// failure is the first error after which the node cannot go on. It also holds the goroutines whose write failed until
// Raft is about to end. Safe for concurrent use.
type failure struct {
	logger hclog.Logger

	once sync.Once
	// err is set before happened is closed, and never changed after that.
	err      error
	happened chan struct{}

	releasing sync.Once
	released  chan struct{}
}

func newFailure(logger hclog.Logger) *failure {
	return &failure{logger: logger, happened: make(chan struct{}), released: make(chan struct{})}
}

// fail ends the node: Run returns the first error that fail was given.
func (f *failure) fail(err error) {
	f.once.Do(func() {
		f.logger.Error("the node cannot go on", "error", err)
		f.err = err
		close(f.happened)
	})
}

// cause returns the first error, nil while there is none.
func (f *failure) cause() error {
	select {
	case <-f.happened:
		return f.err
	default:
		return nil
	}
}

func (f *failure) failed() bool { return f.cause() != nil }

// hold keeps the calling goroutine until release, and then ends it: its deferred calls run. A goroutine of Raft whose
// write failed calls hold, because what Raft would do next could rest on a vote or an entry that is not on disk.
func (f *failure) hold() {
	<-f.released
	runtime.Goexit()
}

// halt ends the node because of an error of the disk, and then does what hold does.
func (f *failure) halt(err error) {
	f.fail(err)
	f.hold()
}

// release ends the goroutines that hold keeps. Raft must be about to end, or must not have begun: Raft's Shutdown waits
// for those goroutines.
func (f *failure) release() { f.releasing.Do(func() { close(f.released) }) }
