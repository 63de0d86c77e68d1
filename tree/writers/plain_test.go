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
	principal             string
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

func (w *plainWriter) willed() uint64 {
	if w.will == nil {
		return 0
	}
	return uint64(len(w.will.Data))
}

// held returns what all sessions hold, and what those of a principal do.
func (p *plain) held(principal string) (results, wills, ownResults, ownWills uint64) {
	for _, w := range p.sessions {
		results, wills = results+w.bytes(), wills+w.willed()
		if w.principal == principal {
			ownResults, ownWills = ownResults+w.bytes(), ownWills+w.willed()
		}
	}
	return results, wills, ownResults, ownWills
}

// above reports whether a principal has more results than all leave free.
func (p *plain) above(principal string) bool {
	results, _, own, _ := p.held(principal)
	return results+own > p.limits.AllResults && own > 0
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
		w.bytes() > p.limits.Spare && p.above(w.principal):
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

func (p *plain) keep(session, number uint64, principal, result string) {
	w := p.writer(session)
	w.applied, w.principal = number, principal
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

// setWill reports whether the will is accepted.
func (p *plain) setWill(session uint64, principal string, will writers.Will) bool {
	after := p.clone()
	w := after.writer(session)
	had := w.willed()
	w.principal, w.will = principal, &will
	_, wills, _, own := after.held(principal)
	if len(will.Data) > writers.MaxWill || w.willed() > had && wills+own > p.limits.AllWills {
		return false
	}
	w = p.writer(session)
	w.principal, w.will = principal, &will
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
			Session: id, Writer: writers.Writer{Applied: w.applied, Floor: w.floor, Acked: w.acked},
			Principal: w.principal, Will: w.will,
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
		b.Add(append(be(be(be(be([]byte("w"), id), w.applied), w.floor), w.acked), w.principal...))
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
