package sim

import (
	"sync"

	"github.com/hashicorp/raft"

	"holdfast/fsm"       //nolint:depguard // a write in the log is read as the state machine reads it
	"holdfast/fsm/entry" //nolint:depguard // a write in the log is read as the state machine reads it
	"holdfast/session"
	"holdfast/test/sim/history"
	"holdfast/tree"
	"holdfast/tree/form"
)

// wholeEvery is how many entries of the log there are from one after which the whole tree is recorded to the next.
const wholeEvery = 64

// ledger knows which entries of the log are recorded.
type ledger struct {
	mu       sync.Mutex
	recorded map[uint64]bool // guarded by mu
}

// begin reports whether an entry should be recorded, and marks it as recorded.
func (l *ledger) begin(index uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := !l.recorded[index]
	l.recorded[index] = true
	return first
}

func (l *ledger) forget(index uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.recorded, index)
}

// committed records the effects of a log entry, on the goroutine that applies. A process that was killed meanwhile
// applies committed entries as well, so its record counts.
func (p *process) committed(now *fsm.Tree, changes []tree.Change, wrote []fsm.Wrote) {
	sessions := p.entry
	p.entry = nil // a change of Raft's configuration does not call applied before
	if !p.w.ledger.begin(now.Index) {
		return
	}
	in, acknowledged, err := p.logged(now.Index)
	if err != nil { // its disk is gone: another node records the entry
		p.w.ledger.forget(now.Index)
		return
	}
	of := &history.Ledger{Clock: now.Clock, Acknowledged: acknowledged, Changes: changes, Sessions: sessions}
	if len(in) != len(wrote) {
		p.w.failf("%s: entry %d has %d writes, and %d were decided on", p.name, now.Index, len(in), len(wrote))
		return
	}
	for i, one := range wrote {
		write := history.Write{NumberedWrite: in[i], At: one.At, Err: one.Err}
		if one.Err == nil {
			result, err := form.ParseResult(one.Result)
			if err != nil {
				p.w.failf("%s: the result of write %d of session %s: %v", p.name, one.Number, one.Session, err)
				return
			}
			write.Result = &result
		}
		if write.Session != uint64(one.Session) || write.Number != one.Number || write.Attachment != one.Attachment {
			p.w.failf("%s: entry %d has write %d of %s, where write %d of %s was decided on", p.name, now.Index,
				write.Number, session.ID(write.Session), one.Number, one.Session)
		}
		of.Writes = append(of.Writes, write)
	}
	if now.Index%wholeEvery == 0 {
		of.Whole = p.w.whole(now.Root)
	}
	if len(of.Writes)+len(of.Acknowledged)+len(of.Changes)+len(of.Sessions) > 0 {
		p.w.record.Add(history.Event{Kind: history.Committed, Who: p.name, Index: now.Index, Ledger: of})
	}
}

// logged returns the writes and the acknowledgements in an entry of the process's log.
func (p *process) logged(index uint64) (writes []tree.NumberedWrite, acknowledged []tree.Acknowledgement, err error) {
	var log raft.Log
	if err = p.disk.logs.GetLog(index, &log); err != nil || log.Type != raft.LogCommand {
		return nil, nil, err
	}
	e, err := entry.Decode(log.Data)
	for _, c := range e.Commands {
		switch c := c.(type) {
		case entry.Write:
			writes = append(writes, c.NumberedWrite)
		case entry.Acknowledge:
			acknowledged = append(acknowledged, c.Acknowledged...)
		}
	}
	return writes, acknowledged, err
}
