package writers_test

import (
	"encoding/binary"
	"maps"
	"slices"

	"holdfast/tree/writers"
)

// bag is a digest that keeps everything.
type bag map[string]int

func (b bag) Add(canonical []byte) { b[string(canonical)]++ }

func (b bag) Remove(canonical []byte) {
	if b[string(canonical)]--; b[string(canonical)] == 0 {
		delete(b, string(canonical))
	}
}

// plain is a table as rules X2 to X5 say it, without indexes, sharing or sums.
type plain struct {
	limits   writers.Limits
	sessions map[uint64]*plainWriter
}

type plainWriter struct {
	applied, floor, acked uint64
	results               map[uint64]string
	will                  *writers.Will
}

func newPlain(limits writers.Limits) *plain {
	return &plain{limits: limits, sessions: map[uint64]*plainWriter{}}
}

func (p *plain) clone() *plain {
	next := newPlain(p.limits)
	for id, w := range p.sessions {
		c := *w
		c.results = maps.Clone(w.results)
		next.sessions[id] = &c
	}
	return next
}

func (w *plainWriter) bytes() (n uint64) {
	for _, result := range w.results {
		n += 32 + uint64(len(result))
	}
	return n
}

func (p *plain) held() (n uint64) {
	for _, w := range p.sessions {
		n += w.bytes()
		if w.will != nil {
			n += uint64(len(w.will.Data))
		}
	}
	return n
}

func (p *plain) take(session, number, acked uint64) (writers.Verdict, string) {
	w := p.sessions[session]
	if w == nil {
		w = &plainWriter{}
	}
	p.acknowledge(session, acked)
	result, kept := w.results[number]
	switch {
	case number <= w.applied && kept:
		return writers.Repeat, result
	case number <= w.applied:
		return writers.Unknown, ""
	case number != w.applied+1:
		return writers.Gap, ""
	case len(w.results) >= p.limits.Results, w.bytes() >= p.limits.Bytes,
		p.held() > p.limits.Shared && w.bytes() > p.limits.Spare:
		return writers.Window, ""
	}
	return writers.Apply, ""
}

func (p *plain) writer(session uint64) *plainWriter {
	if p.sessions[session] == nil {
		p.sessions[session] = &plainWriter{results: map[uint64]string{}}
	}
	return p.sessions[session]
}

func (p *plain) keep(session, number uint64, result string) {
	w := p.writer(session)
	w.applied = number
	w.results[number] = result
}

func (p *plain) acknowledge(session, upTo uint64) {
	w := p.sessions[session]
	if w == nil {
		return
	}
	w.acked = max(w.acked, min(upTo, w.applied))
	w.forget(w.acked)
}

func (w *plainWriter) forget(upTo uint64) {
	maps.DeleteFunc(w.results, func(number uint64, _ string) bool { return number <= upTo })
}

func (p *plain) moved(session uint64) (applied, floor uint64) {
	w := p.sessions[session]
	if w == nil {
		return 0, 0
	}
	w.floor = w.applied
	w.forget(w.floor)
	return w.applied, w.floor
}

// setWill reports whether the will is taken.
func (p *plain) setWill(session uint64, will writers.Will) bool {
	had := 0
	if w := p.sessions[session]; w != nil && w.will != nil {
		had = len(w.will.Data)
	}
	if len(will.Data) > writers.MaxWill ||
		len(will.Data) > had && p.held()+uint64(len(will.Data)-had) > p.limits.Shared {
		return false
	}
	p.writer(session).will = &will
	return true
}

func (p *plain) end(session uint64) (last writers.Last) {
	if w := p.sessions[session]; w != nil {
		last = writers.Last{Applied: w.applied, Floor: w.floor, Will: w.will}
	}
	delete(p.sessions, session)
	return last
}

// records returns what a snapshot has of p.
func (p *plain) records() (all []writers.Record) {
	for _, id := range slices.Sorted(maps.Keys(p.sessions)) {
		w := p.sessions[id]
		one := writers.Record{
			Session: id, Writer: writers.Writer{Applied: w.applied, Floor: w.floor, Acked: w.acked}, Will: w.will,
		}
		for _, number := range slices.Sorted(maps.Keys(w.results)) {
			one.Results = append(one.Results, []byte(w.results[number]))
		}
		all = append(all, one)
	}
	return all
}

// digest returns what a digest of p has.
func (p *plain) digest() bag {
	b := bag{}
	be := binary.BigEndian.AppendUint64
	for id, w := range p.sessions {
		b.Add(be(be(be(be([]byte("w"), id), w.applied), w.floor), w.acked))
		for number, result := range w.results {
			b.Add(append(be(be([]byte("r"), id), number), result...))
		}
		if w.will != nil {
			onClose := byte(0)
			if w.will.OnClose {
				onClose = 1
			}
			b.Add(append(append(be([]byte("l"), id), onClose), w.will.Data...))
		}
	}
	return b
}
