package writes

import (
	"fmt"
	"strings"
)

// action is one possible event. Its conditions leave the state unchanged; its effects change it.
type action struct {
	// text describes it: $p is a process, $n a number.
	text string
	// each has the numbers of the arguments that it is tried with: how many processes, and which numbers.
	processes, from, to uint8
	// progress: it happens without a trigger once faults have ended (I18 an answer).
	progress bool
	// weight is how often a random walk tries it.
	weight int
	// do performs the action. It reports false, and leaves the state unchanged, when the action is not possible.
	do func(x *step, i int, n uint8) bool
}

//nolint:gochecknoglobals // a table that nothing changes
var actions = []action{
	{"$p writes (X1)", 2, 0, 1, false, 6, func(x *step, i int, _ uint8) bool { return x.newWrite(i) }},
	{"$p's node opens a stream", 2, 0, 1, true, 20, func(x *step, i int, _ uint8) bool { return x.open(i) }},
	{"$p's node sends (X7)", 2, 0, 1, true, 20, func(x *step, i int, _ uint8) bool { return x.send(i) }},
	{
		"$p's node receives the refusal of $n (X7)", 2, 1, 1 + maxNumbers, true, 10,
		func(x *step, i int, n uint8) bool { return x.refused(i, n) },
	},
	{"$p's node applies an entry", 2, 0, 1, true, 20, func(x *step, i int, _ uint8) bool { return x.applyNext(i) }},
	{"the log appends a write", 1, 0, 1, true, 20, func(x *step, _ int, _ uint8) bool { return x.commit(&x.Leads, 0) }},
	{"former leaders notice (W4)", 1, 0, 1, true, 2, func(x *step, _ int, _ uint8) bool { return x.notice() }},
	{
		"the writes of former leaders are lost", 1, 0, 1, true, 2,
		func(x *step, _ int, _ uint8) bool { return x.loseDeposed() },
	},
	{
		"the log appends a write of a former leader", 1, 0, 1, false, 10,
		func(x *step, _ int, _ uint8) bool { return x.commit(&x.Deposed, 0) },
	},
	{
		"the leader refuses its write $n (W4)", 1, 0, maxQueue, false, 4,
		func(x *step, _ int, n uint8) bool { return x.refuse(n) },
	},
	{"another node leads", 1, 0, 1, false, 2, func(x *step, _ int, _ uint8) bool { return x.elect() }},
	{"the leader leads once more", 1, 0, 1, false, 2, func(x *step, _ int, _ uint8) bool { return x.again() }},
	{
		"$p's node loses its stream and $n writes on it", 2, 0, maxNumbers, false, 2,
		func(x *step, i int, n uint8) bool { return x.breakStream(i, n) },
	},
	{"$p's node restores (W4)", 2, 0, 1, false, 4, func(x *step, i int, _ uint8) bool { return x.restore(i) }},
	{"$p loses its connection", 2, 0, 1, false, 2, func(x *step, i int, _ uint8) bool { return x.lose(i) }},
	{"$p resumes (X4)", 2, 0, 1, false, 5, func(x *step, i int, _ uint8) bool { return x.resume(i) }},
	{
		"$p resumes and loses the answer", 2, 0, 1, false, 1,
		func(x *step, i int, _ uint8) bool { return x.resumeUnheard(i) },
	},
	{
		"$p gives $n up (X6)", 2, 1, 1 + maxNumbers, false, 2,
		func(x *step, i int, n uint8) bool { return x.giveUp(i, n) },
	},
	{"the session ends", 1, 0, 1, false, 1, func(x *step, _ int, _ uint8) bool { return x.expire() }},
	{"$p sends to its node (X8)", 2, 0, 1, true, 20, func(x *step, i int, _ uint8) bool { return x.between().hand(i) }},
	{"$p's node accepts a write (X8)", 2, 0, 1, true, 20, func(x *step, i int, _ uint8) bool { return x.between().accept(i) }},
	{
		"$p receives a refusal (X8)", 2, 0, 1, true, 20,
		func(x *step, i int, _ uint8) bool { return x.between().receiveRefusal(i) },
	},
	{"$p's node refuses (X8)", 2, 0, 1, false, 5, func(x *step, i int, _ uint8) bool { return x.between().admission(i) }},
	{"$p's node acknowledges (X3)", 2, 0, 1, false, 3, func(x *step, i int, _ uint8) bool { return x.quiet(i) }},
}

// event is an action with its arguments.
type event struct{ action, process, number uint8 }

func (e event) String() string {
	return strings.NewReplacer("$p", name(int(e.process)), "$n", fmt.Sprint(e.number)).Replace(actions[e.action].text)
}

// possible returns all candidate events. Those of progress come first.
func possible() []event {
	var all []event
	for _, progress := range []bool{true, false} {
		for a, act := range actions {
			if act.progress != progress {
				continue
			}
			for p := range act.processes {
				for n := act.from; n < act.to; n++ {
					all = append(all, event{uint8(a), p, n})
				}
			}
		}
	}
	return all
}

// try performs an event. It reports false, and leaves the state unchanged, when the event is not possible.
func (x *step) try(e event) bool { return actions[e.action].do(x, int(e.process), e.number) }

// progressRounds bounds the rounds of all progress actions before a write counts as never answered.
const progressRounds = 40

// quiesce performs all events of progress, and checks that every connected process has the outcome of each of its
// writes (I18).
func (x *step) quiesce(events []event) {
	for range progressRounds {
		progress := false
		for _, e := range events {
			if !actions[e.action].progress {
				break
			}
			progress = x.try(e) || progress
		}
		if !x.waits() {
			return
		}
		if !progress {
			break
		}
	}
	if x.Broken == 0 {
		x.Breaks(I18, "a write is never answered")
	}
}

// waits reports whether a connected process has an unanswered write.
func (x *step) waits() bool {
	for i := range x.Process {
		if p := &x.Process[i]; p.Connected != 0 && p.lowest() <= p.Next {
			return true
		}
	}
	return false
}
