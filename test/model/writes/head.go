package writes

// commit appends a command to the log and applies it to the replicated state (W2 the state decides). It reports false
// when there is no room for the entry.
func (x *step) commit(q *queue, i uint8) bool {
	if i >= q.Len || x.Logged == maxLog {
		return false
	}
	c := q.remove(i)
	e := entry{command: c}
	if c.Kind == acknowledge {
		x.decide().acknowledged(c.Acked)
	} else {
		e.Verdict, e.Result = x.decide().admit(c)
		x.Say("%v: %v", c, e.Verdict)
	}
	x.record(e)
	x.log(e)
	return true
}

// log appends an entry, and forgets entries that every serving node has applied or has no use for.
func (x *step) log(e entry) {
	if x.awaited(&e) {
		x.Log[x.Logged] = e
		x.Logged++
	}
}

// awaited reports whether a serving node will do something when it applies an entry. Its node must be connected: a node
// without clients only applies.
func (x *step) awaited(e *entry) bool {
	for i := range x.Process {
		p := &x.Process[i]
		if p.Connected == 0 {
			continue
		}
		switch e.Kind {
		case write:
			if p.Attachment == e.Attachment && e.Verdict != fenced {
				return true
			}
		case move, end:
			return true
		}
	}
	return false
}

// trim forgets the entries that all serving nodes have applied.
func (x *step) trim() {
	least := x.Logged
	for i := range x.Process {
		if p := &x.Process[i]; p.Connected != 0 {
			least = min(least, p.Applied)
		}
	}
	if least == 0 {
		return
	}
	var left [maxLog]entry
	copy(left[:], x.Log[least:x.Logged])
	x.Log, x.Logged = left, x.Logged-least
	for i := range x.Process {
		if p := &x.Process[i]; p.Connected != 0 {
			p.Applied -= least
		}
	}
}

// deciding is the replicated state within a step.
type deciding struct{ *step }

func (x *step) decide() deciding { return deciding{x} }

// admit decides on a write (W3 attachment check, X2 writers, X3 kept results).
func (d deciding) admit(c command) (verdict, result) {
	h := &d.Head
	if h.Ended != 0 && d.Obeys(W3Exists) || c.Attachment != h.Attachment && d.Obeys(W3Attachment) {
		return fenced, 0
	}
	d.acknowledged(c.Acked)
	switch {
	case c.Number <= h.Applied && d.Obeys(X2Repeat):
		if kept := h.Kept[c.Number]; kept != 0 {
			return repeat, kept
		}
		return unknown, 0
	case c.Number > h.Applied+1 && d.Obeys(X2Gap):
		if !d.Obeys(X2Free) {
			h.Applied = c.Number
		}
		return gap, 0
	case h.Applied >= max(h.Acked, h.Floor)+d.scope.Window && c.Number > h.Applied:
		if !d.Obeys(X3Free) {
			h.Applied = c.Number
		}
		return window, 0
	}
	return applied, d.apply(c)
}

// apply carries out a write and keeps its result.
func (d deciding) apply(c command) result {
	h := &d.Head
	outcome := resultOf(c.Process, c.Void)
	if c.Void == 0 {
		d.effect(c)
	} else if !d.Obeys(X6Void) {
		return outcome
	}
	h.Applied = max(h.Applied, c.Number)
	if !d.Obeys(X3Kept) {
		h.Kept = [1 + maxNumbers]result{}
	}
	if d.Obeys(X2Keeps) {
		h.Kept[c.Number] = outcome
	}
	return outcome
}

// effect records that a write takes effect (I9 once, I10 in order).
func (d deciding) effect(c command) {
	g, p := &d.Ghost, &d.Process[c.Process]
	g.Effects[c.Process][c.Number]++
	switch {
	case g.Effects[c.Process][c.Number] > 1:
		g.Effects[c.Process][c.Number] = 2
		d.Breaks(I9, "%v takes effect a second time", c)
	case p.Status[c.Number] == never:
		d.Breaks(I9, "%v takes effect, and %s had got the answer \"never\"", c, name(int(c.Process)))
	case d.Head.Ended != 0:
		d.Breaks(I10, "%v takes effect after the session's end", c)
	case c.Attachment != d.Head.Attachment:
		d.Breaks(I10, "%v takes effect, and the session has attachment %d", c, d.Head.Attachment)
	case c.Number <= g.Last:
		d.Breaks(I10, "%v takes effect after %d", c, g.Last)
	}
	g.Last = c.Number
}

// acknowledged drops results up to a number (X2, X3).
func (d deciding) acknowledged(upTo uint8) {
	h := &d.Head
	h.Acked = max(h.Acked, min(upTo, h.Applied))
	h.forget(h.Acked)
}

func (h *head) forget(upTo uint8) {
	for n := range h.Kept[:min(upTo, maxNumbers)+1] {
		h.Kept[n] = 0
	}
}

// moved records that a process has the session now (M1 a resume is a move, X4 a new instance starts anew).
func (d deciding) moved(process uint8) {
	h := &d.Head
	h.Attachment++
	if h.Instance == process {
		return
	}
	h.Instance = process
	d.record(entry{command: command{Kind: move}})
	if d.Obeys(X4) && d.Obeys(X4Floor) {
		h.Floor = h.Applied
	}
	if d.Obeys(X4) && d.Obeys(X4Results) {
		h.forget(h.Applied)
	}
}
