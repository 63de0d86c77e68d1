package writers

import (
	"errors"
	"fmt"
	"slices"
)

// Record is a session's writer in a snapshot (D7 tree snapshots), with every field that the state keeps.
//
// All results but the last have fewer than [Limits.Bytes] bytes together. The will has at most [MaxWill] bytes.
type Record struct {
	Session uint64
	Writer
	// Principal is the principal whose share holds the results and the will.
	Principal string
	// Results are the results of the numbers above Floor and Acked, up to Applied.
	Results [][]byte
	// Will is nil if there is none.
	Will *Will
}

// Records calls f for all writers, in the order of their sessions, until f returns false. f must not modify the
// contents of a record.
func (r *Root) Records(f func(Record) bool) {
	r.writers.Scan(func(session uint64, w writer) bool {
		one := Record{Session: session, Writer: w.Writer, Principal: w.principal(), Will: w.will()}
		if w.holding != nil {
			one.Results = slices.Clip(w.holding.results)
		}
		return f(one)
	})
}

// Restorer builds a table from the records of a snapshot, and refuses records that no table can have (D7).
type Restorer struct {
	table *Table
	last  uint64
	// alive reports whether a session exists: a snapshot has the sessions before the writers.
	alive func(session uint64) bool
}

// NewRestorer returns a restorer without records. alive reports whether a session exists.
func NewRestorer(digest Digest, limits Limits, alive func(session uint64) bool) *Restorer {
	return &Restorer{table: New(digest, limits), alive: alive}
}

// Add adds the next record, in the order of [Root.Records]. The restorer then owns the record's contents.
func (r *Restorer) Add(one Record) error {
	if err := r.check(&one); err != nil {
		return fmt.Errorf("writer of session %#x: %w", one.Session, err)
	}
	t := r.table
	w := writer{Writer: one.Writer}
	t.charge(&w, one.Principal)
	if len(one.Results) > 0 || one.Will != nil {
		w.holding = &holding{results: slices.Clip(one.Results), will: one.Will}
	}
	for i, result := range one.Results {
		w.holding.bytes += weigh(result)
		t.addResult(one.Session, w.share, w.low()+1+uint64(i), result)
	}
	t.addWill(one.Session, w.share, one.Will)
	t.scratch = w.canonical(t.scratch[:0], one.Session)
	t.digest.Add(t.scratch)
	t.writers.Load(one.Session, w)
	r.last = one.Session
	return nil
}

// check says what is wrong with a record.
func (r *Restorer) check(one *Record) error {
	switch {
	case one.Session <= r.last:
		return fmt.Errorf("comes after that of session %#x", r.last)
	case !r.alive(one.Session):
		return errors.New("the session does not exist")
	case one.Applied == 0:
		return errors.New("has applied no write")
	case one.Floor > one.Applied:
		return fmt.Errorf("has floor %d and has applied %d", one.Floor, one.Applied)
	case one.Acked > one.Applied:
		return fmt.Errorf("has acknowledged %d and applied %d", one.Acked, one.Applied)
	case uint64(len(one.Results)) != one.Applied-one.low():
		return fmt.Errorf("has %d results, and numbers for %d", len(one.Results), one.Applied-one.low())
	case one.Will != nil && len(one.Will.Data) > MaxWill:
		return &LimitError{Field: "will", Has: uint64(len(one.Will.Data)), Max: MaxWill}
	}
	return r.checkResults(one.Results)
}

// checkResults says whether a session may hold these results. Only the last result may exceed the bound, because it was
// added while space was left.
func (r *Restorer) checkResults(results [][]byte) error {
	limits := r.table.limits
	if len(results) > limits.Results {
		return fmt.Errorf("has %d results, and at most %d are possible", len(results), limits.Results)
	}
	var bytes uint64
	for i, result := range results {
		if i > 0 && bytes >= limits.Bytes {
			return fmt.Errorf("has more results than %d bytes", limits.Bytes)
		}
		bytes += weigh(result)
	}
	return nil
}

// Table returns the table after the last record.
func (r *Restorer) Table() *Table { return r.table }
