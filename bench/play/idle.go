package play

import (
	"context"
	"time"

	"holdfast/session"
	"holdfast/test/proc"
)

// idleWork measures the servers for 20 s without a client, from 5 s after the start.
func idleWork() Work {
	return Work{
		Name:    "idle",
		Figures: []Figure{{"idle_cpu", "an idle cluster of three, CPU", Percent}},
		bound:   2 * time.Minute,
		play: func(ctx context.Context, s *stage) error {
			const warmUp, during = 5 * time.Second, 20 * time.Second
			if err := session.Sleep(ctx, warmUp); err != nil {
				return err
			}
			used, err := busy(ctx, s, during)
			s.set("idle_cpu", used)
			return err
		},
	}
}

// busy returns the share of one core that the servers use for a while, in percent.
func busy(ctx context.Context, s *stage, during time.Duration) (float64, error) {
	begin, before := time.Now(), proc.CPU(s.Servers()...)
	if err := session.Sleep(ctx, during); err != nil {
		return 0, err
	}
	return 100 * (proc.CPU(s.Servers()...) - before).Seconds() / time.Since(begin).Seconds(), nil
}
