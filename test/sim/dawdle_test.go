package sim

import "time"

// Dawdle implements faults.World.
func (w *world) Dawdle(name string, each time.Duration) (undo func() bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lags[name] += each
	before := w.lagged[name]
	return func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.lags[name] -= each
		return w.lagged[name] > before
	}
}

// lag is the node's present delay for an entry.
func (p *process) lag() time.Duration {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	each := p.w.lags[p.name]
	if each > 0 {
		p.w.lagged[p.name]++
	}
	return each
}

// lagging is lag without counting an entry.
func (p *process) lagging() time.Duration {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return p.w.lags[p.name]
}

// dawdle sleeps on the goroutine that applies: between an entry's effects on sessions and on clients' trees, and before
// the node's index moves and the next entry is applied. A killed process does not wait.
func (p *process) dawdle(each time.Duration) {
	if each == 0 {
		return
	}
	timer := time.NewTimer(each)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.disk.gone:
	}
}
