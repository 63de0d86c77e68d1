package sim

import (
	"context"
	"slices"
	"time"

	"holdfast/client"
	"holdfast/fsm" //nolint:depguard // reads the state machine
	"holdfast/session"
	"holdfast/test/sim/history"
)

const (
	// operatorWaits is the time of one call of an operator.
	operatorWaits = 3 * time.Second
	// operatorTries bounds the calls that undo an act, or wait for a change of members: concurrent faults, such as a
	// kill of the member to be promoted, last shorter together.
	operatorTries = 160
)

// operator returns a client on a separate host, which no fault affects.
func (w *world) operator() *client.Client {
	return w.operatorAt(w.guest("op"))
}

func (w *world) operatorAt(name string) *client.Client {
	c, err := client.New(client.Config{
		Instance: w.instance(), Endpoints: w.endpoints(), Dial: w.Host(name).Dial, Logger: w.logs.logger(name),
		Rand: w.stream(name + " waits"),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// once makes one call of an operator.
func once(call func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), operatorWaits)
	defer cancel()
	return call(ctx)
}

// until repeats a call until it is done, or has become idle.
func (w *world) until(what string, call func(ctx context.Context) error, idle func() bool) {
	var err error
	for range operatorTries {
		if idle() {
			return
		}
		if err = once(call); err == nil {
			return
		}
		sleep(context.Background(), 500*time.Millisecond)
	}
	w.failf("%s: %v", what, err)
}

// Drain implements faults.Operator.
func (w *world) Drain(name string) (undo func() bool) {
	o, at, number := w.operator(), name+":7400", session.Node(1+slices.Index(w.names, name))
	drained := w.life(name)
	drains := func(ctx context.Context) error {
		_, err := o.DrainNode(ctx, at, number, true)
		return err
	}
	done := begun(func() error { return once(drains) })
	return func() bool {
		defer o.Close()
		err := <-done
		// Its end is as good, and a call that failed may have been carried out.
		w.until("undrain "+name, func(ctx context.Context) error {
			_, undrainErr := o.UndrainNode(ctx, at, number)
			return undrainErr
		}, func() bool { return drained.alive() == nil })
		return err == nil
	}
}

// Freeze implements faults.Operator.
func (w *world) Freeze(lasts time.Duration) (undo func() bool) {
	o := w.operator()
	w.mu.Lock()
	w.freeze = freezing{w.record.Now(), lasts}
	w.mu.Unlock()
	done := begun(func() error {
		return once(func(ctx context.Context) error { return o.Freeze(ctx, lasts, "simulation") })
	})
	return func() bool {
		defer o.Close()
		err := <-done
		w.until("thaw", o.Thaw, func() bool { return false })
		return err == nil
	}
}

// freezing is a request to freeze the cluster.
type freezing struct{ sent, lasts time.Duration }

// begun starts a call beside the fault that makes it.
func begun(call func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	return done
}

// frost records that the node is frozen from an entry on, or no longer.
func (p *process) frost(now *fsm.Tree) {
	frozen := now.Time.Freeze
	p.mu.Lock()
	changed := (frozen != nil) != p.frozen
	p.frozen = frozen != nil
	p.mu.Unlock()
	if !changed {
		return
	}
	e := history.Event{Kind: history.Thawed, Who: p.name, Index: now.Index, ApplyDelay: p.lagging()}
	if frozen != nil {
		p.w.mu.Lock()
		f := p.w.freeze
		p.w.mu.Unlock()
		// The bound counts from the entry's reading of the running clock, which is none of before the request.
		e.Kind, e.Timeout, e.Until = history.FreezeBegan, f.lasts, f.sent+f.lasts
	}
	p.note(e)
}
