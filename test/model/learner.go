package model

// learner is a node's state for its own clients.
type learner struct {
	Table     [maxSessions]touch
	Conns     [maxSessions]uint8   // the set of attachments whose connections ended here
	Confirmed [maxSessions]touchAt // the newest confirmed touches (S1, S2)
	Request   [maxSessions]request
	Local     [maxSessions]local
}

// touch is an entry of the touch table.
type touch struct {
	Attachment, At uint8 // as recorded; At on the node's Mono
	New            uint8 // not yet reported
	Void           uint8 // made before the machine was suspended (S5 suspended machines)
	Made           uint8 // ghost: the attachment of its connection
	Stale          uint8 // ghost: made after a newer attachment was served
}

// touchAt is a touch by its attachment and its time on the node's Mono.
type touchAt struct{ Attachment, At uint8 }

// request is a client's resume at a node.
type request struct {
	Attempt, At, Void uint8 // At on Mono
	Sent              uint8 // proposed
	Real              uint8 // ghost: At in Now
	// In scopes with take-overs: the requesting process, the attachment that it names, and (ghost) the session's newest
	// attachment then.
	Instance, Named, Present uint8
}

// local is a session at the only node that knows it.
type local struct {
	On     uint8
	Last   uint8 // the newest touch, on Mono
	Old    uint8 // Last is from before the machine was suspended
	Flight uint8 // an upgrade is in flight (L8 one upgrade at a time)
	Begun  uint8 // when the upgrade began, on Mono
	Since  uint8 // the index that the node had applied then (L7 upgrade)
	Void   uint8 // the machine was suspended since then
	Real   uint8 // ghost: Last in Now
}

// serving is a node with its own clients.
type serving struct {
	at
	*learner
}

func (x *step) serving(i int) serving { return serving{x.at(i), &x.Node[i].Learner} }

// served returns the sessions that the node serves through their newest connection, as far as it knows.
func (v serving) served() (set uint8) {
	for s := range v.scope.sessions() {
		mine := v.FSM.Session[s]
		if mine.Alive == 1 && int(mine.Owner) == v.id && v.Conns[s]&(1<<mine.Attachment) != 0 || v.Local[s].On == 1 {
			set |= 1 << s
		}
	}
	return set
}

// promise answers a keep-alive (S3 length of a promise). A client may send a keep-alive at any time, so the model sends
// one as soon as there is something to promise; later keep-alives promise no more. All clocks run at one rate, so a
// promise ends a full timeout after the confirmed touch and no later.
func (v serving) promise(s int) {
	c, mine := v.Confirmed[s], v.FSM.Session[s]
	ago := v.Process.Mono - c.At
	if mine.Alive == 0 || mine.Attachment != c.Attachment || v.Conns[s]&(1<<c.Attachment) == 0 ||
		ago >= v.scope.Timeout {
		return
	}
	v.oracle().promised(v.id, s, ago)
}

// voidPromises is S5: no touch from before the suspension of the machine is a ground for a promise.
func (v serving) voidPromises() {
	if v.Obeys(S5) {
		v.Confirmed = [maxSessions]touchAt{}
	} else {
		for s := range v.scope.sessions() {
			v.promise(s)
		}
	}
	if !v.Obeys(S5Pending) {
		return
	}
	for s := range v.scope.sessions() {
		v.Request[s].Void, v.Table[s].Void = 1, 1
		if one := &v.Local[s]; one.On == 1 {
			one.Old, one.Void = 1, one.Flight
		}
	}
	for l := range v.scope.nodes() {
		k := &v.Link[l][v.id]
		k.Relay.Sent, k.Relay.ReadMono, k.Relay.AsOf = [maxAnswers][maxSessions]touchAt{}, [maxAnswers]uint8{}, 0
		for s := range k.Wire.Touch {
			k.Wire.Touch[s].Void |= k.Wire.Touch[s].Has
		}
	}
}

// receiveBacklog records that keep-alives of all served sessions wait in the sockets of a process that did not run (E1
// full timeout after a change of leader).
func (v serving) receiveBacklog() {
	v.Process.Backlog = v.served()
	for s := range v.scope.sessions() {
		if v.Process.Backlog&(1<<s) == 0 {
			continue
		}
		if v.Local[s].On == 1 {
			v.Local[s].Real = v.Now
		} else if v.FSM.Session[s].Attachment == v.Truth.FSM.Session[s].Attachment {
			v.Truth.Session[s].Touched = v.Now
		}
	}
}
