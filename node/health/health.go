package health

import (
	"context"
	"strings"
	"time"

	"holdfast/session"
)

// unreadyFraction is the part of an interval after which Run checks again while the node does not serve.
const unreadyFraction = 5

// Config configures a [Health].
type Config struct {
	Pulse session.Pulse
	// Interval is the time between two checks while the node serves.
	Interval time.Duration
	// Checks return why the node does not serve. Check calls them in order until one returns an error: after the check
	// for stalls has failed, no other check may run, because the state may be locked.
	Checks []func() error
	// Warnings describe problems for an operator that do not keep the node from serving; empty strings are skipped.
	Warnings []func() string
	// Each has the functions that Run calls before each check.
	Each []func()
	// Serving is called with the outcome of each check of Run.
	Serving func(bool)
}

// Health reports whether a node serves, and why not. Safe for concurrent use.
type Health struct {
	cfg Config
	// news wakes Run.
	news chan struct{}
	// ready is closed once the node has served for the first time.
	ready chan struct{}
}

// New returns a Health. [Health.Run] closes [Health.Ready].
func New(cfg Config) *Health {
	return &Health{cfg: cfg, news: make(chan struct{}, 1), ready: make(chan struct{})}
}

// Check returns nil when the node serves; otherwise the reason.
func (h *Health) Check() error {
	for _, check := range h.cfg.Checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// Warning returns all warnings, or an empty string.
func (h *Health) Warning() string {
	var all []string
	for _, warning := range h.cfg.Warnings {
		if text := warning(); text != "" {
			all = append(all, text)
		}
	}
	return strings.Join(all, "; ")
}

// Ready is closed once the node has served for the first time.
func (h *Health) Ready() <-chan struct{} { return h.ready }

// CheckSoon makes Run check at once. It does not wait.
func (h *Health) CheckSoon() { wake(h.news) }

// Run checks at each interval while the node serves, more often while it does not, and after each
// [Health.CheckSoon], until ctx ends.
func (h *Health) Run(ctx context.Context) error {
	every, first := h.cfg.Interval, true
	ticker := h.cfg.Pulse.Ticker(every)
	defer ticker.Stop()
	for {
		for _, f := range h.cfg.Each {
			f()
		}
		ok := h.Check() == nil
		h.cfg.Serving(ok)
		if ok && first {
			first = false
			close(h.ready)
		}
		next := h.cfg.Interval
		if !ok {
			next /= unreadyFraction
		}
		if next != every {
			every = next
			ticker.Reset(every)
		}
		select {
		case <-ticker.C:
		case <-h.news:
		case <-ctx.Done():
			return nil
		}
	}
}

// wake leaves a token in a channel with a buffer of one.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
