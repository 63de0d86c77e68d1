package node

import (
	"sync"

	"github.com/hashicorp/go-hclog"
)

// failure is the first error after which the node cannot go on. Safe for concurrent use.
type failure struct {
	logger hclog.Logger

	once sync.Once
	// err is set before happened is closed, and never changed after that.
	err      error
	happened chan struct{}
}

func newFailure(logger hclog.Logger) *failure {
	return &failure{logger: logger, happened: make(chan struct{})}
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
