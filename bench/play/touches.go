package play

import (
	"context"

	"holdfast/bench/system"
	"holdfast/test/proc"
)

// touchWork makes 200,000 touches of one session a message, 1,024 in flight, and then sends 20,000 messages of 83
// sessions each. ZooKeeper and etcd have one session a message.
func touchWork() Work {
	return Work{
		Name: "touches",
		Figures: []Figure{
			{"touches_rate", "touches/s, one a message, 1,024 in flight", PerSecond},
			{"touches_cpu", "servers' CPU for 1 M of them", Seconds},
			{
				"touches_joint_cpu", "servers' CPU for 1 M touches, 83 sessions a message (where one message may have them)",
				Seconds,
			},
		},
		bound: 3 * minute,
		needs: can[system.Toucher],
		play:  touches,
	}
}

// touches touches sessions one by one, and then all sessions of a connection together.
func touches(ctx context.Context, s *stage) error {
	conns, err := connectAll(ctx, s, 4)
	if err != nil {
		return err
	}
	defer endAll(conns)
	held := make([]system.Session, len(conns)*share)
	if _, err = flood(ctx, len(held), flight, spread(conns, held, long)); err != nil {
		return err
	}
	n := s.many(200_000)
	before := proc.CPU(s.Servers()...)
	o, err := flood(ctx, n, flight, func(i int, done func(error)) {
		at := i % len(held)
		conns[at%len(conns)].(system.Toucher).TouchOne(held[at], done) //nolint:errcheck // the work needs it
	})
	if err != nil {
		return err
	}
	s.set("touches_rate", o.rate())
	s.set("touches_cpu", (proc.CPU(s.Servers()...)-before).Seconds()/float64(n)*1e6)
	before, messages := proc.CPU(s.Servers()...), max(len(conns), s.many(20_000))
	if !can[system.Promiser](conns[0]) {
		messages = max(len(conns), messages/share) // each is 83
	}
	if _, err = flood(ctx, messages, len(conns), func(i int, done func(error)) {
		conns[i%len(conns)].Touch(done)
	}); err != nil {
		return err
	}
	s.set("touches_joint_cpu", (proc.CPU(s.Servers()...)-before).Seconds()/float64(messages*share)*1e6)
	return nil
}
