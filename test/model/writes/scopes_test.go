package writes

func scope(name string, numbers, window uint8, most Counts) *Scope {
	return &Scope{Name: name, Numbers: numbers, Window: window, Most: most}
}

// Scopes for one kind of trouble each.
var (
	calm       = scope("calm", 3, 3, Counts{})
	losing     = scope("losing", 2, 3, Counts{Losses: 1})
	electing   = scope("electing", 2, 3, Counts{Elections: 1})
	refusing   = scope("refusing", 3, 3, Counts{Refusals: 1})
	refusing2  = scope("refusing, electing", 3, 3, Counts{Refusals: 1, Elections: 1})
	restoring  = scope("restoring", 2, 3, Counts{Restores: 1})
	restoring2 = scope("restoring, refusing", 3, 3, Counts{Restores: 1, Refusals: 1})
	reconnect  = scope("reconnecting", 2, 3, Counts{Disconnects: 1})
	narrow     = scope("narrow", 3, 1, Counts{})
	narrowSkip = scope("narrow, restoring", 2, 1, Counts{Restores: 1})
	voiding    = scope("voiding", 2, 3, Counts{Voids: 1, Losses: 1})
	voidingOld = scope("voiding, electing", 1, 3, Counts{Voids: 1, Elections: 1})
	takenOver  = scope("taken over", 1, 3, Counts{TakeOvers: 1, Disconnects: 1})
	takenBack  = scope("taken back", 2, 3, Counts{TakeOvers: 2, Disconnects: 2})
	skippedEnd = scope("taken back, restoring", 2, 3, Counts{TakeOvers: 2, Disconnects: 2, Restores: 1})
	ending     = scope("ending", 2, 3, Counts{Ends: 1})
	endingBack = scope("taken back, ending", 2, 3, Counts{TakeOvers: 2, Disconnects: 2, Ends: 1})
	endingVoid = scope("voiding, ending", 1, 3, Counts{Voids: 1, Disconnects: 1, Ends: 1})
	admitting  = scope("admitting", 3, 3, Counts{Admissions: 1})
	admitBack  = scope("admitting, reconnecting", 3, 3, Counts{Admissions: 1, Disconnects: 1})
	quieting   = scope("acknowledging", 2, 2, Counts{Acks: 1, TakeOvers: 1, Disconnects: 1})
)

// leftOut is a search without some rules: the scope, and what breaks in it. breaks is 0 if nothing was found.
type leftOut struct {
	without Without
	breaks  Invariants
	scope   *Scope
}

// leftOuts has every rule alone, in the order of docs/tree.md, and pairs of rules that cover each other.
var leftOuts = []leftOut{
	{Rules(W3Exists), I10, ending},
	{Rules(W3Exists), I9, ending},
	{Rules(W3Attachment), I10, reconnect},
	{Rules(W4Ends), I18, electing},
	{Rules(W4Certainly), 0, refusing},
	{Rules(W4Kept), 0, restoring2},
	{Rules(W4Kept, X7Restore), I18, restoring},
	{Rules(X2Keeps), I9, restoring},
	{Rules(X2Repeat), I9, refusing},
	{Rules(X2Gap), I9, refusing},
	{Rules(X2Free), I9, refusing},
	{Rules(X3Kept), I9, restoring},
	{Rules(X3Free), I9, narrow},
	{Rules(X3Newest), I18, narrow},
	{Rules(X4), I9, takenBack},
	{Rules(X4Floor), I9, takenBack},
	{Rules(X4Results), 0, takenBack},
	{Rules(X4Numbers), I9, takenOver},
	{Rules(X4Unknown), I18, skippedEnd},
	{Rules(X5), I9, reconnect},
	{Rules(X6Takes), I18, voiding},
	{Rules(X6Takes), I9, voidingOld},
	{Rules(X7Stream), I18, losing},
	{Rules(X7Restore), I18, narrowSkip},
	{Rules(X7Refused), I18, refusing},
	{Rules(X7Gap), 0, refusing2},
	{Rules(X7Answered), 0, refusing2},
	{Rules(X7Gap, X7Answered), I18, refusing2},
	{Rules(X7Window), I18, narrow},
	{Rules(X8Before), I18, admitting},
	{Rules(X8Names), 0, admitting},
	{Rules(X8Back), I18, admitting},
	{Rules(X8First), 0, admitBack},
	{Rules(X8Also), I18, admitBack},
	{Rules(X9Instance), I9, endingBack},
	{Rules(X9Floor), I9, endingBack},
	{Rules(X9Void), I9, endingVoid},
}

// completes are the scopes that are seen whole in every run, wides those that are not.
var (
	completes = []*Scope{
		calm, losing, electing, refusing, restoring, restoring2, reconnect, narrow, narrowSkip, voiding, voidingOld,
		takenOver, takenBack, ending, endingVoid, quieting, admitting, admitBack, endingBack,
	}
	wides = []*Scope{
		refusing2,
		scope("everything", 3, 2, Counts{
			Elections: 2, Losses: 2, Refusals: 2, Restores: 2, Disconnects: 3, TakeOvers: 3, Voids: 2, Ends: 1, Acks: 2,
		}),
		scope("one process", 3, 1, Counts{
			Elections: 3, Losses: 3, Refusals: 3, Restores: 3, Disconnects: 2, Voids: 3, Acks: 2,
		}),
		scope("admission", 3, 3, Counts{Elections: 1, Losses: 1, Refusals: 1, Disconnects: 2, TakeOvers: 2, Admissions: 3}),
		scope("two processes", 3, 3, Counts{Elections: 2, Restores: 1, Disconnects: 5, TakeOvers: 5, Ends: 1}),
	}
)
