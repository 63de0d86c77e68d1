package leader

// signal wakes one goroutine. Several signals count as one until the goroutine receives it.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

// set sends the signal without blocking.
func (s signal) set() {
	select {
	case s <- struct{}{}:
	default:
	}
}
