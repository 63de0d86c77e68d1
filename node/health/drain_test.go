package health

import (
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/fsm"
	"holdfast/learner"
	"holdfast/session"
	"holdfast/test/bubble"
)

// view is a state outside of any cluster.
type view struct{ *fsm.State }

func (view) Ascend(session.ID, func(session.Session) bool) {}
func (view) Members() []session.Member                     { return nil }
func (view) Term() uint64                                  { return 0 }

// An operator may undrain a node in the same moment in which another operator drains it: the second one gets the drain
// that began, and nothing panics (Q1 drain).
func TestQ1DrainedAndUndrainedAtOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		logger := hclog.NewNullLogger()
		var d *Drain
		first := true
		d = NewDrain(DrainConfig{
			Node: 1, Logger: logger, Pulse: session.NewPulse(), Timeout: time.Second, Interval: time.Second,
			Server: learner.NewServer(learner.Config{
				Node: 1, Interval: time.Second, Pulse: session.NewPulse(), Logger: logger, Clock: time.Now,
			}, view{fsm.New(fsm.Config{Logger: logger})}),
			Leads: func() bool { return false },
			Changed: func() {
				if !first {
					return
				}
				first = false
				if was, err := d.Undrain(); !was || err != nil {
					t.Errorf("undrain: %v, %v", was, err)
				}
			},
		})
		s, err := d.Drain(t.Context(), true)
		if err != nil || s.Since.IsZero() || d.On() {
			t.Errorf("drain: %+v, %v; still on: %v", s, err, d.On())
		}
	})
}
