package writes

import (
	"holdfast/test/model/check"
	"holdfast/test/model/search"
)

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

// leftOuts has every rule alone, in the order of docs/tree.md, and pairs of rules that cover each other.
var leftOuts = []check.LeftOut[*Scope]{
	{Without: search.Rules(W3Exists), Breaks: I10, Scope: ending},
	{Without: search.Rules(W3Exists), Breaks: I9, Scope: ending},
	{Without: search.Rules(W3Attachment), Breaks: I10, Scope: reconnect},
	{Without: search.Rules(W4Ends), Breaks: I18, Scope: electing},
	{Without: search.Rules(W4Certainly), Breaks: 0, Scope: refusing},
	{Without: search.Rules(W4Kept), Breaks: 0, Scope: restoring2},
	{Without: search.Rules(W4Kept, X7Restore), Breaks: I18, Scope: restoring},
	{Without: search.Rules(X2Keeps), Breaks: I9, Scope: restoring},
	{Without: search.Rules(X2Repeat), Breaks: I9, Scope: refusing},
	{Without: search.Rules(X2Gap), Breaks: I9, Scope: refusing},
	{Without: search.Rules(X2Free), Breaks: I9, Scope: refusing},
	{Without: search.Rules(X3Kept), Breaks: I9, Scope: restoring},
	{Without: search.Rules(X3Free), Breaks: I9, Scope: narrow},
	{Without: search.Rules(X3Newest), Breaks: I18, Scope: narrow},
	{Without: search.Rules(X4), Breaks: I9, Scope: takenBack},
	{Without: search.Rules(X4Floor), Breaks: I9, Scope: takenBack},
	{Without: search.Rules(X4Results), Breaks: 0, Scope: takenBack},
	{Without: search.Rules(X4Numbers), Breaks: I9, Scope: takenOver},
	{Without: search.Rules(X4Unknown), Breaks: I18, Scope: skippedEnd},
	{Without: search.Rules(X5), Breaks: I9, Scope: reconnect},
	{Without: search.Rules(X6Void), Breaks: I18, Scope: voiding},
	{Without: search.Rules(X6Void), Breaks: I9, Scope: voidingOld},
	{Without: search.Rules(X7Stream), Breaks: I18, Scope: losing},
	{Without: search.Rules(X7Restore), Breaks: I18, Scope: narrowSkip},
	{Without: search.Rules(X7Refused), Breaks: I18, Scope: refusing},
	{Without: search.Rules(X7Gap), Breaks: 0, Scope: refusing2},
	{Without: search.Rules(X7Answered), Breaks: 0, Scope: refusing2},
	{Without: search.Rules(X7Gap, X7Answered), Breaks: I18, Scope: refusing2},
	{Without: search.Rules(X7Window), Breaks: I18, Scope: narrow},
	{Without: search.Rules(X8Before), Breaks: I18, Scope: admitting},
	{Without: search.Rules(X8Names), Breaks: 0, Scope: admitting},
	{Without: search.Rules(X8Back), Breaks: I18, Scope: admitting},
	{Without: search.Rules(X8First), Breaks: 0, Scope: admitBack},
	{Without: search.Rules(X8Also), Breaks: I18, Scope: admitBack},
	{Without: search.Rules(X9Instance), Breaks: I9, Scope: endingBack},
	{Without: search.Rules(X9Floor), Breaks: I9, Scope: endingBack},
	{Without: search.Rules(X9Void), Breaks: I9, Scope: endingVoid},
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

// wholes returns the searches of completes.
func wholes() (all []check.Whole[*Scope]) {
	for _, scope := range completes {
		all = append(all, check.Whole[*Scope]{Scope: scope, For: All})
	}
	return all
}
