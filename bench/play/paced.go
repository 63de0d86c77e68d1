package play

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"holdfast/test/proc"
)

// pace is the distance of the requests of bystanders.
const pace = 5 * time.Millisecond

// paced makes requests at an even pace while something lasts, and returns the times of those that were done. It waits
// for all of them. Those that failed are left out.
func paced(ctx context.Context, do request, while func(context.Context) error) (*outcome, error) {
	ended := make(chan error, 1)
	go func() { ended <- while(ctx) }()
	p := &pacing{}
	turn := time.NewTicker(pace)
	defer turn.Stop()
	for i := 0; ; i++ {
		select {
		case <-turn.C:
			p.ask(i, do)
			continue
		case err := <-ended:
			if err != nil {
				return nil, err
			}
		}
		break
	}
	err := proc.Until(ctx, pace, func(context.Context) error { return p.idle() })
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && len(p.took) == 0 {
		err = errors.New("no request was done")
	}
	o := &outcome{took: p.took}
	o.sort()
	return o, err
}

// pacing are the requests of bystanders.
type pacing struct {
	mu sync.Mutex
	// inFlight counts unfinished requests, took has the times of the finished ones; guarded by mu.
	inFlight int
	took     []time.Duration
}

func (p *pacing) ask(i int, do request) {
	begin := time.Now()
	p.mu.Lock()
	p.inFlight++
	p.mu.Unlock()
	do(i, func(err error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.inFlight--
		if err == nil {
			p.took = append(p.took, time.Since(begin))
		}
	})
}

// idle returns nil when no request is in flight.
func (p *pacing) idle() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inFlight > 0 {
		return fmt.Errorf("%d requests are in flight", p.inFlight)
	}
	return nil
}
