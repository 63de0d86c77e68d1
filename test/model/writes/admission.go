package writes

// The way between a client and its node, and the node's refusals there (X8 admission of writes). It is modelled in
// scopes in which nodes refuse; in others a write is at its node as soon as it has a number.

// between is the part between clients and their nodes in a step.
type between struct{ *step }

func (x *step) between() between { return between{x} }

// leg is the way between a client and its node.
type leg struct {
	// Queue are the numbers on their way, Refused the answers of the node.
	Queue   [maxNumbers]uint8
	Refused [maxNumbers]refusal
	// Queued and Refusals count them.
	Queued, Refusals uint8
	// Sent is the highest number that the client has sent since it last went back.
	Sent uint8
	// Began is the first number of the attachment at the node, 0 for none, and Have the highest that the node has
	// accepted.
	Began, Have uint8
	// Dropped has a bit for each number that the node has accepted and refused: only without X8Before.
	Dropped uint8
}

// refusal is a node's refusal of a write, with the number that it expects; 0 for the want of room.
type refusal struct{ Number, Expected uint8 }

// admits reports whether nodes may refuse writes.
func (s *Scope) admits() bool { return s.Most[Admissions] > 0 }

// hand sends the next write to the client's node.
func (x between) hand(i int) bool {
	p := &x.Process[i]
	n := max(p.Leg.Sent+1, p.lowest())
	for n <= p.Next && p.Status[n] != pending {
		n++
	}
	if !x.scope.admits() || p.Connected == 0 || n > p.Next || p.Leg.Queued == maxNumbers {
		return false
	}
	p.Leg.Queue[p.Leg.Queued] = n
	p.Leg.Queued, p.Leg.Sent = p.Leg.Queued+1, n
	x.Say("%d", n)
	return true
}

// next removes the first number on its way.
func (l *leg) next() (n uint8, ok bool) {
	if l.Queued == 0 || l.Refusals == maxNumbers {
		return 0, false
	}
	n = l.Queue[0]
	copy(l.Queue[:], l.Queue[1:])
	l.Queued--
	l.Queue[l.Queued] = 0
	return n, true
}

func (l *leg) refuse(r refusal) {
	l.Refused[l.Refusals] = r
	l.Refusals++
}

// accept lets the node of a process accept the next write, unless it expects another number.
func (x between) accept(i int) bool {
	p := &x.Process[i]
	n, ok := p.Leg.next()
	if !ok {
		return false
	}
	switch {
	case !x.begins(p, n):
		p.Leg.refuse(x.gap(n, x.appliedAt(p)+1))
	case n < p.Leg.Began || n > p.Leg.Have+1:
		p.Leg.refuse(x.gap(n, p.Leg.Have+1))
	default:
		p.Leg.Have = max(p.Leg.Have, n)
	}
	return true
}

// begins makes a number the attachment's first, if there is none yet. It reports false for a number that cannot be the
// first.
func (x between) begins(p *process, n uint8) bool {
	if p.Leg.Began > 0 {
		return true
	}
	if n > x.appliedAt(p)+1 && x.Obeys(X8First) {
		return false
	}
	p.Leg.Began, p.Leg.Have = n, n-1
	return true
}

// gap is the refusal of a number where another is expected.
func (x between) gap(n, expected uint8) refusal {
	if !x.Obeys(X8Names) {
		expected = n
	}
	x.Say("%d is refused: %d is expected", n, expected)
	return refusal{n, expected}
}

// appliedAt returns the number of the newest write that the node of a process has applied.
func (x between) appliedAt(p *process) uint8 {
	n := x.Head.Applied
	for _, e := range x.Log[p.Applied:x.Logged] {
		if e.Kind == write && e.Verdict == applied {
			n--
		}
	}
	return n
}

// admission lets the node of a process refuse the next write for the want of room.
func (x between) admission(i int) bool {
	p := &x.Process[i]
	if p.Leg.Queued == 0 || p.Leg.Refusals == maxNumbers || !x.spend(Admissions) {
		return false
	}
	n, _ := p.Leg.next()
	x.Say("%d", n)
	if x.Obeys(X8Also) {
		x.begins(p, n)
	}
	if !x.Obeys(X8Before) && x.begins(p, n) && n == p.Leg.Have+1 {
		p.Leg.Have = n
		p.Leg.Dropped |= 1 << n
	}
	p.Leg.refuse(refusal{Number: n})
	return true
}

// receiveRefusal makes a process receive its node's refusal of a write: it goes back.
func (x between) receiveRefusal(i int) bool {
	p := &x.Process[i]
	l := &p.Leg
	if l.Refusals == 0 {
		return false
	}
	r := l.Refused[0]
	copy(l.Refused[:], l.Refused[1:])
	l.Refusals--
	l.Refused[l.Refusals] = refusal{}
	switch {
	case r.Number < p.lowest(), r.Number > l.Sent, !x.Obeys(X8Back):
	case r.Expected == 0:
		l.Sent = r.Number - 1
	case r.Expected < p.lowest() || r.Expected > p.Next:
		x.Say("%s resumes", name(i)) // the node's numbers are not those of this attachment
		p.disconnect()
		x.trim()
	default:
		l.Sent = min(l.Sent, r.Expected-1)
	}
	return true
}
