package wire

import (
	"fmt"
	"math"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/tree"
)

// NumberingProto returns the numbering of a unary write.
func NumberingProto(t session.Token, number, acked uint64) *holdfastv1.Numbering {
	return &holdfastv1.Numbering{Token: TokenProto(t), Number: number, Acked: acked}
}

// numberingFrom returns a write without operations, and the token of its session.
func numberingFrom(p *holdfastv1.Numbering) (session.Token, tree.NumberedWrite, error) {
	if p == nil {
		return session.Token{}, tree.NumberedWrite{}, &session.FieldError{Field: "numbering", Limit: session.Missing}
	}
	t, err := TokenFrom(p.GetToken())
	if err != nil {
		return session.Token{}, tree.NumberedWrite{}, Within("numbering", err)
	}
	w := tree.NumberedWrite{
		Session: uint64(t.ID), Attachment: t.Attachment, Number: p.GetNumber(), Acked: p.GetAcked(),
	}
	return t, w, Within("numbering", numbersOf(w))
}

// numbersOf checks the numbers of a write.
func numbersOf(w tree.NumberedWrite) error {
	switch {
	case w.Number == 0:
		return &session.FieldError{Field: "number", Limit: "1 or more"}
	case w.Acked >= w.Number:
		return &session.FieldError{Field: "acked", Limit: fmt.Sprintf("below the number, %d", w.Number)}
	}
	return nil
}

// UnaryWriteFrom returns the write of a unary request of TreeService, and the token of its session. The error is a
// [session.FieldError].
func UnaryWriteFrom(request any, principals []tree.Principal) (session.Token, tree.NumberedWrite, error) {
	r, ok := request.(interface{ GetNumbering() *holdfastv1.Numbering })
	if !ok {
		return session.Token{}, tree.NumberedWrite{}, &session.FieldError{Field: "message", Limit: "a write"}
	}
	t, w, err := numberingFrom(r.GetNumbering())
	if err != nil {
		return session.Token{}, tree.NumberedWrite{}, err
	}
	w.Principals = principals
	if transact, ok := request.(*holdfastv1.TransactRequest); ok {
		if w.Transaction, err = TransactionFrom(transact.GetTransaction(), principals); err == nil {
			w.Will, err = WillFrom(transact.GetWill(), principals)
		}
	} else {
		var op tree.Op
		op, err = OpFrom(singleOp(request), principals)
		w.Transaction.Then = []tree.Op{op}
		if err == nil {
			err = total(w.Transaction.Check())
		}
	}
	if err != nil {
		return session.Token{}, tree.NumberedWrite{}, err
	}
	return t, w, nil
}

// singleOp returns the operation of a unary request with one operation; an empty one if it is missing.
func singleOp(request any) *holdfastv1.Op {
	switch r := request.(type) {
	case *holdfastv1.CreateRequest:
		return &holdfastv1.Op{Op: &holdfastv1.Op_Create{Create: r.GetCreate()}}
	case *holdfastv1.DeleteRequest:
		return &holdfastv1.Op{Op: &holdfastv1.Op_Delete{Delete: r.GetDelete()}}
	case *holdfastv1.DeleteTreeRequest:
		return &holdfastv1.Op{Op: &holdfastv1.Op_DeleteTree{DeleteTree: r.GetDeleteTree()}}
	case *holdfastv1.SetRequest:
		return &holdfastv1.Op{Op: &holdfastv1.Op_Set{Set: r.GetSet()}}
	case *holdfastv1.SetACLRequest:
		return &holdfastv1.Op{Op: &holdfastv1.Op_SetAcl{SetAcl: r.GetSetAcl()}}
	default:
		return &holdfastv1.Op{}
	}
}

// WillProto returns a will in protocol buffers; nil for nil.
func WillProto(w *tree.Will) *holdfastv1.Will {
	if w == nil {
		return nil
	}
	return &holdfastv1.Will{Transaction: TransactionProto(w.Transaction), OnClose: w.OnClose}
}

// WillFrom returns the will of a client with these principals; nil for an absent one. The error is a
// [session.FieldError] of "will".
func WillFrom(p *holdfastv1.Will, principals []tree.Principal) (*tree.Will, error) {
	if p == nil {
		return nil, nil
	}
	x, err := TransactionFrom(p.GetTransaction(), principals)
	if err != nil {
		return nil, Within("will", err)
	}
	err = tree.CheckWill(x)
	if err == nil {
		err = x.CheckWeight(tree.MaxWillWeight)
	}
	if err != nil {
		return nil, &session.FieldError{Field: "will.transaction", Limit: "must be valid: " + err.Error()}
	}
	return &tree.Will{Transaction: x, OnClose: p.GetOnClose()}, nil
}

// WriteProto returns a write of a Connect stream.
func WriteProto(seq uint64, w tree.NumberedWrite) *holdfastv1.Write {
	return &holdfastv1.Write{
		Seq: seq, SessionId: w.Session, Number: w.Number, Acked: w.Acked, Transaction: TransactionProto(w.Transaction),
		Will: WillProto(w.Will), Void: w.Void,
	}
}

// WriteFrom returns a write of a Connect stream, of a client with these principals. Its attachment is 0 here, and comes
// from the connection.
func WriteFrom(p *holdfastv1.Write, principals []tree.Principal) (tree.NumberedWrite, error) {
	w := tree.NumberedWrite{Session: p.GetSessionId(), Number: p.GetNumber(), Acked: p.GetAcked(), Void: p.GetVoid()}
	if _, err := IDFrom("session_id", p.GetSessionId()); err != nil {
		return tree.NumberedWrite{}, err
	}
	if err := numbersOf(w); err != nil {
		return tree.NumberedWrite{}, err
	}
	if w.Void {
		if p.GetTransaction() != nil || p.GetWill() != nil {
			return tree.NumberedWrite{}, &session.FieldError{Field: "void", Limit: "false with a transaction or a will"}
		}
		return w, nil
	}
	var err error
	if w.Transaction, err = TransactionFrom(p.GetTransaction(), principals); err != nil {
		return tree.NumberedWrite{}, err
	}
	if w.Will, err = WillFrom(p.GetWill(), principals); err != nil {
		return tree.NumberedWrite{}, err
	}
	w.Principals = principals
	return w, nil
}

// WrittenProto returns the answer to a write of a Connect stream.
func WrittenProto(seq uint64, r tree.Result) *holdfastv1.Written {
	p := &holdfastv1.Written{Seq: seq, Stamp: uint64(r.Stamp)}
	if !r.Void {
		p.Outcome = OutcomeProto(r)
	}
	return p
}

// WrittenFrom returns the answer to a write. The error is a [session.FieldError].
func WrittenFrom(p *holdfastv1.Written) (tree.Result, error) {
	r := tree.Result{Stamp: tree.Stamp(p.GetStamp()), Void: p.GetOutcome() == nil}
	if r.Stamp == 0 {
		return tree.Result{}, &session.FieldError{Field: "written.stamp", Limit: notZero}
	}
	if r.Void {
		return r, nil
	}
	var err error
	r.Outcome, err = OutcomeFrom(p.GetOutcome())
	return r, err
}

// OutcomeProto returns the outcome of a transaction.
func OutcomeProto(r tree.Result) *holdfastv1.Outcome {
	p := &holdfastv1.Outcome{Else: r.Outcome.Else}
	if refused := r.Outcome.Refused; refused != nil {
		p.Refused = Detail(&tree.WriteError{Refused: refused, At: r.Outcome.At, Stamp: r.Stamp})
		return p
	}
	for _, op := range r.Outcome.Ops {
		one := &holdfastv1.OpResult{Path: op.Path, Removed: uint32(op.Removed)}
		if op.Stat.Kind != 0 {
			one.Stat = StatProto(op.Stat)
		}
		p.Results = append(p.Results, one)
	}
	return p
}

// OutcomeFrom returns the outcome of a transaction. The error is a [session.FieldError] of "outcome".
func OutcomeFrom(p *holdfastv1.Outcome) (tree.Outcome, error) {
	o := tree.Outcome{Else: p.GetElse()}
	if p.GetRefused() != nil {
		refused, ok := refusedFrom(p.GetRefused())
		if !ok || len(p.GetResults()) > 0 {
			return tree.Outcome{}, &session.FieldError{Field: "outcome.refused", Limit: "a refusal of the tree, without results"}
		}
		o.Refused, o.At = refused, int(p.GetRefused().GetRefusal().GetAt())
		return o, nil
	}
	for i, one := range p.GetResults() {
		if one.GetRemoved() > math.MaxInt32 {
			return tree.Outcome{}, &session.FieldError{Field: "outcome.results.removed", Limit: "at most 2^31 - 1"}
		}
		op := tree.OpOutcome{Path: one.GetPath(), Removed: int(one.GetRemoved())}
		if one.GetStat() != nil {
			var err error
			if op.Stat, err = StatFrom(one.GetStat()); err != nil {
				return tree.Outcome{}, Within(fmt.Sprintf("outcome.results[%d]", i), err)
			}
		}
		o.Ops = append(o.Ops, op)
	}
	return o, nil
}

// willFrom returns the fate of a will; 0 for an unknown one.
func willFrom(p holdfastv1.WillFate) tree.WillFate {
	if p < 0 || p > holdfastv1.WillFate_WILL_FATE_DROPPED {
		return 0
	}
	return tree.WillFate(p)
}
