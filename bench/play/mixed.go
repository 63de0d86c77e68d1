package play

import (
	"context"
	"fmt"

	"holdfast/bench/system"
	"holdfast/test/proc"
	"holdfast/tree"
)

// mixedWork sets and gets 1,024 entries of 100 B in turn, by four sessions at each server, 1,024 in flight: 80,000
// requests after 8,000 to warm up. Each read is in the order of its session's requests.
func mixedWork() Work {
	return Work{
		Name: "mixed",
		Figures: []Figure{
			{"mixed_rate", "sets and gets in turn/s, 12 sessions, 1,024 in flight", PerSecond},
			{"mixed_p50", "one of them, p50", Seconds},
			{"mixed_p99", "the same, p99", Seconds},
			{"mixed_cpu", "servers' CPU for 1 M of them", Seconds},
		},
		bound: 5 * minute,
		needs: can[system.Ordered],
		play:  mixed,
	}
}

func mixed(ctx context.Context, s *stage) error {
	const entries = 1024
	p, err := plant(ctx, s)
	if err != nil {
		return err
	}
	defer p.end()
	if _, err = flood(ctx, entries, flight, p.creating("mixed", tree.Persistent)); err != nil {
		return err
	}
	for _, n := range []int{s.scaled(8_000), s.scaled(80_000)} { // the first is to warm up
		before := proc.CPU(s.Servers()...)
		o, err := flood(ctx, n, flight, func(i int, done func(error)) {
			w := p.writers[i/2%len(p.writers)]
			path := entry("mixed", i/2%entries)
			if i%2 == 0 {
				w.entries.Set(w.session, path, make([]byte, entryBytes), done)
				return
			}
			w.read(path, done)
		})
		if err != nil {
			return err
		}
		s.set("mixed_rate", o.rate())
		s.set("mixed_p50", o.at(0.5).Seconds())
		s.set("mixed_p99", o.at(0.99).Seconds())
		s.set("mixed_cpu", (proc.CPU(s.Servers()...)-before).Seconds()/float64(n)*1e6)
	}
	return nil
}

// valueWork sets 16 entries to 1 MB again and again, 16 in flight, by four sessions at each server: 300 sets after 32
// to warm up.
func valueWork() Work {
	return Work{
		Name: "values",
		Figures: []Figure{
			{"values_rate", "sets/s of 1 MB, 16 in flight", PerSecond},
			{"values_p50", "one of them, p50", Seconds},
			{"values_p99", "the same, p99", Seconds},
			{"values_cpu", "servers' CPU for one", Seconds},
		},
		bound: 5 * minute,
		needs: can[system.Ordered],
		play:  values,
	}
}

func values(ctx context.Context, s *stage) error {
	const inFlight, size = 16, 1_000_000
	p, err := plant(ctx, s)
	if err != nil {
		return err
	}
	defer p.end()
	if _, err = flood(ctx, inFlight, inFlight, p.creating("value", tree.Persistent)); err != nil {
		return err
	}
	data := make([]byte, size)
	for i := range data { // nothing that a codec can shorten
		data[i] = byte(i * i >> 7)
	}
	for _, n := range []int{2 * inFlight, s.scaled(300)} { // the first is to warm up
		before := proc.CPU(s.Servers()...)
		o, err := flood(ctx, n, inFlight, func(i int, done func(error)) {
			w := p.writers[i%len(p.writers)]
			w.entries.Set(w.session, entry("value", i%inFlight), data, func(err error) {
				if err != nil {
					err = fmt.Errorf("set %d: %w", i, err)
				}
				done(err)
			})
		})
		if err != nil {
			return err
		}
		s.set("values_rate", o.rate())
		s.set("values_p50", o.at(0.5).Seconds())
		s.set("values_p99", o.at(0.99).Seconds())
		s.set("values_cpu", (proc.CPU(s.Servers()...)-before).Seconds()/float64(n))
	}
	return nil
}
