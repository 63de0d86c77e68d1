package wire

import (
	"cmp"
	"errors"
	"fmt"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/tree"
)

// OpProto returns an operation in protocol buffers.
func OpProto(op tree.Op) *holdfastv1.Op {
	p := opProto{&holdfastv1.Op{}}
	op.Visit(p)
	return p.op
}

// opProto makes the message of an operation.
type opProto struct{ op *holdfastv1.Op }

// Create implements [tree.Visitor].
func (p opProto) Create(op tree.Create) {
	p.op.Op = &holdfastv1.Op_Create{Create: &holdfastv1.Create{
		Path: op.Path, Sequential: op.Sequential, Data: op.Data, Null: op.Data == nil,
		Kind: holdfastv1.EntryKind(op.Kind), Parents: op.Parents, Ttl: millisProto(op.TTL),
		LockDelay: millisProto(op.LockDelay), Acl: AccessListProto(op.ACL),
	}}
}

// Set implements [tree.Visitor].
func (p opProto) Set(op tree.Set) {
	p.op.Op = &holdfastv1.Op_Set{Set: &holdfastv1.Set{
		Path: op.Path, Data: op.Data, Null: op.Data == nil, Version: versionProto(op.Version),
	}}
}

// Delete implements [tree.Visitor].
func (p opProto) Delete(op tree.Delete) {
	p.op.Op = &holdfastv1.Op_Delete{Delete: &holdfastv1.Delete{Path: op.Path, Version: versionProto(op.Version)}}
}

// DeleteTree implements [tree.Visitor].
func (p opProto) DeleteTree(op tree.DeleteTree) {
	p.op.Op = &holdfastv1.Op_DeleteTree{DeleteTree: &holdfastv1.DeleteTree{Path: op.Path}}
}

// SetACL implements [tree.Visitor].
func (p opProto) SetACL(op tree.SetACL) {
	p.op.Op = &holdfastv1.Op_SetAcl{SetAcl: &holdfastv1.SetACL{
		Path: op.Path, Acl: AccessListProto(op.ACL), Version: versionProto(op.Version),
	}}
}

// Check implements [tree.Visitor].
func (p opProto) Check(op tree.Check) {
	p.op.Op = &holdfastv1.Op_Check{Check: &holdfastv1.Check{Path: op.Path, Version: versionProto(op.Version)}}
}

// OpFrom returns an operation of a client with these principals; a missing operation counts as one without fields. The
// error is a [session.FieldError] of the operation's field in Op, such as "create".
func OpFrom(p *holdfastv1.Op, principals []tree.Principal) (op tree.Op, err error) {
	var field string
	switch m := p.GetOp().(type) {
	case *holdfastv1.Op_Create:
		field = "create"
		op, err = createFrom(m.Create, principals)
	case *holdfastv1.Op_Set:
		field = "set"
		op, err = setFrom(cmp.Or(m.Set, &holdfastv1.Set{}))
	case *holdfastv1.Op_Delete:
		field = "delete"
		one := tree.Delete{Path: m.Delete.GetPath()}
		if one.Version, err = versionFrom(cmp.Or(m.Delete, &holdfastv1.Delete{}).Version); err == nil {
			op = one
		}
	case *holdfastv1.Op_DeleteTree:
		field = "delete_tree"
		op = tree.DeleteTree{Path: m.DeleteTree.GetPath()}
	case *holdfastv1.Op_SetAcl:
		field = "set_acl"
		op, err = setACLFrom(cmp.Or(m.SetAcl, &holdfastv1.SetACL{}), principals)
	case *holdfastv1.Op_Check:
		field = "check"
		one := tree.Check{Path: m.Check.GetPath()}
		if one.Version, err = versionFrom(cmp.Or(m.Check, &holdfastv1.Check{}).Version); err == nil {
			op = one
		}
	default:
		return nil, &session.FieldError{Field: "op", Limit: "create, set, delete, delete_tree, set_acl or check"}
	}
	if err != nil {
		return nil, Within(field, err)
	}
	return op, fieldOf(field, tree.CheckOp(op))
}

func createFrom(p *holdfastv1.Create, principals []tree.Principal) (tree.Op, error) {
	c := tree.Create{Path: p.GetPath(), Sequential: p.GetSequential(), Kind: tree.Persistent, Parents: p.GetParents()}
	switch kind := p.GetKind(); {
	case kind == holdfastv1.EntryKind_ENTRY_KIND_UNSPECIFIED:
	case kind < 0 || kind > holdfastv1.EntryKind_ENTRY_KIND_EXPIRING:
		return nil, &session.FieldError{Field: "kind", Limit: "persistent, ephemeral, container or expiring"}
	default:
		c.Kind = tree.Kind(kind)
	}
	var err error
	if c.Data, err = dataFrom(p.GetData(), p.GetNull()); err != nil {
		return nil, err
	}
	if c.TTL, err = DurationFrom("ttl", p.GetTtl(), NotNegative); err != nil {
		return nil, err
	}
	if c.LockDelay, err = DurationFrom("lock_delay", p.GetLockDelay(), NotNegative); err != nil {
		return nil, err
	}
	c.ACL, err = AccessListFrom(p.GetAcl(), principals)
	return c, err
}

func setFrom(p *holdfastv1.Set) (tree.Op, error) {
	s := tree.Set{Path: p.GetPath()}
	var err error
	if s.Version, err = versionFrom(p.Version); err != nil {
		return nil, err
	}
	s.Data, err = dataFrom(p.GetData(), p.GetNull())
	return s, err
}

func setACLFrom(p *holdfastv1.SetACL, principals []tree.Principal) (tree.Op, error) {
	s := tree.SetACL{Path: p.GetPath()}
	var err error
	if s.Version, err = versionFrom(p.Version); err != nil {
		return nil, err
	}
	s.ACL, err = AccessListFrom(p.GetAcl(), principals)
	return s, err
}

// TransactionProto returns a transaction in protocol buffers; nil for an empty one.
func TransactionProto(x tree.Transaction) *holdfastv1.Transaction {
	if len(x.If)+len(x.Then)+len(x.Else) == 0 {
		return nil
	}
	p := &holdfastv1.Transaction{}
	for _, c := range x.If {
		p.Conditions = append(p.Conditions, &holdfastv1.Condition{
			Path: c.Path, Property: holdfastv1.Property(c.Property), Comparison: holdfastv1.Comparison(c.Is),
			Value: c.Value,
		})
	}
	for _, op := range x.Then {
		p.Then = append(p.Then, OpProto(op))
	}
	for _, op := range x.Else {
		p.Else = append(p.Else, OpProto(op))
	}
	return p
}

// TransactionFrom returns the transaction of a client with these principals; an empty one if p is absent. The error is
// a [session.FieldError] of "transaction".
func TransactionFrom(p *holdfastv1.Transaction, principals []tree.Principal) (tree.Transaction, error) {
	x, err := transactionFrom(p, principals)
	return x, Within("transaction", err)
}

func transactionFrom(p *holdfastv1.Transaction, principals []tree.Principal) (x tree.Transaction, err error) {
	if n := len(p.GetConditions()) + len(p.GetThen()) + len(p.GetElse()); n > tree.MaxOps {
		return x, &session.FieldError{Field: "then", Limit: "at most 10,000 operations and conditions together"}
	}
	for i, c := range p.GetConditions() {
		one, wrong := conditionFrom(c)
		if wrong != nil {
			return tree.Transaction{}, Within(fmt.Sprintf("conditions[%d]", i), wrong)
		}
		x.If = append(x.If, one)
	}
	if x.Then, err = opsFrom("then", p.GetThen(), principals); err != nil {
		return tree.Transaction{}, err
	}
	if x.Else, err = opsFrom("else", p.GetElse(), principals); err != nil {
		return tree.Transaction{}, err
	}
	if err = x.Check(); err == nil {
		err = x.CheckWeight(tree.MaxWeight)
	}
	return x, total(err)
}

// total returns the error of a transaction whose parts are valid but too large together.
func total(err error) error {
	if wrong, ok := errors.AsType[*tree.FieldError](err); ok {
		return &session.FieldError{Field: "then", Limit: "must be valid: all together " + wrong.Why}
	}
	return err
}

func conditionFrom(p *holdfastv1.Condition) (tree.Condition, error) {
	switch property, comparison := p.GetProperty(), p.GetComparison(); {
	case property < holdfastv1.Property_PROPERTY_EXISTS || property > holdfastv1.Property_PROPERTY_CHILDREN:
		return tree.Condition{}, &session.FieldError{Field: "property", Limit: "a property of entries"}
	case comparison < holdfastv1.Comparison_COMPARISON_EQUAL || comparison > holdfastv1.Comparison_COMPARISON_GREATER:
		return tree.Condition{}, &session.FieldError{Field: "comparison", Limit: "equal, not equal, less or greater"}
	}
	path, err := PathFrom("path", p.GetPath())
	return tree.Condition{
		Path: path, Property: tree.Property(p.GetProperty()), Is: tree.Comparison(p.GetComparison()), Value: p.GetValue(),
	}, err
}

func opsFrom(field string, all []*holdfastv1.Op, principals []tree.Principal) (ops []tree.Op, err error) {
	for i, p := range all {
		op, err := OpFrom(p, principals)
		if err != nil {
			return nil, Within(fmt.Sprintf("%s[%d]", field, i), err)
		}
		ops = append(ops, op)
	}
	return ops, nil
}
