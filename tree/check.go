package tree

import "fmt"

// Bounds of a will (U3).
const (
	// MaxWillOps is the number of operations and conditions of a will, at most.
	MaxWillOps = 64
	// MaxWill is the size of a will in bytes, at most, as [Transaction.Size] counts them.
	MaxWill = 64 << 10
)

// Check returns a [FieldError] unless the state can carry the transaction out: it has at most [MaxOps] conditions and
// operations, [MaxRequest] bytes, and every field is within its bounds. What depends on the tree is not checked.
func (x Transaction) Check() error {
	if n := x.parts(); n > MaxOps {
		return wrong("transaction", "has %d conditions and operations: at most %d", n, MaxOps)
	}
	if size := x.Size(); size > MaxRequest {
		return wrong("transaction", "has %d bytes: at most %d", size, MaxRequest)
	}
	for i, c := range x.If {
		if err := inField(fmt.Sprintf("if[%d]", i), c.check()); err != nil {
			return err
		}
	}
	for _, branch := range [...]struct {
		name string
		ops  []Op
	}{{"then", x.Then}, {"else", x.Else}} {
		for i, op := range branch.ops {
			if err := inField(fmt.Sprintf("%s[%d]", branch.name, i), CheckOp(op)); err != nil {
				return err
			}
		}
	}
	return nil
}

// CheckWill returns a [FieldError] unless the transaction may be a will (U3): at most [MaxWillOps] operations and
// conditions, [MaxWill] bytes, and no ephemerals, because nobody would own them.
func CheckWill(x Transaction) error {
	if n := x.parts(); n > MaxWillOps {
		return wrong("will", "has %d conditions and operations: at most %d", n, MaxWillOps)
	}
	if size := x.Size(); size > MaxWill {
		return wrong("will", "has %d bytes: at most %d", size, MaxWill)
	}
	for _, ops := range [...][]Op{x.Then, x.Else} {
		for _, op := range ops {
			if c, ok := op.(Create); ok && c.Kind == Ephemeral {
				return wrong("will", "creates the ephemeral %s: its session will have ended", shortened(c.Path))
			}
		}
	}
	return inField("will", x.Check())
}

// parts counts conditions and operations.
func (x Transaction) parts() int { return len(x.If) + len(x.Then) + len(x.Else) }

func (c Condition) check() error {
	switch {
	case c.Property < Exists || c.Property > ChildCount:
		return wrong("property", "is %d: must be %d to %d", c.Property, Exists, ChildCount)
	case c.Is < Equal || c.Is > Greater:
		return wrong("is", "is %d: must be %d to %d", c.Is, Equal, Greater)
	}
	return inField("path", CheckPath(c.Path))
}

// CheckOp returns a [FieldError] unless all fields of an operation are within their bounds.
func CheckOp(op Op) error {
	switch op := op.(type) {
	case Create:
		return op.check()
	case Set:
		return checkPathAndVersion(op.Path, op.Version)
	case Delete:
		return checkPathAndVersion(op.Path, op.Version)
	case DeleteTree:
		return checkPathAndVersion(op.Path, Any)
	case SetACL:
		if err := checkPathAndVersion(op.Path, op.Version); err != nil {
			return err
		}
		return inField("acl", op.ACL.Check())
	case Check:
		return checkPathAndVersion(op.Path, op.Version)
	default:
		return wrong("op", "is %T: must be an operation of this package", op)
	}
}

func checkPathAndVersion(path string, version int64) error {
	if version < Any || version > MaxVersion {
		return wrong("version", "is %d: must be 0 to %d, or %d for any", version, int64(MaxVersion), Any)
	}
	return inField("path", CheckPath(path))
}

func (c Create) check() error {
	path := CheckPath
	if c.Sequential {
		path = CheckPrefix
	}
	if err := path(c.Path); err != nil {
		return inField("path", err)
	}
	switch {
	case c.Kind < Persistent || c.Kind > Expiring:
		return wrong("kind", "is %d: must be %d to %d", c.Kind, Persistent, Expiring)
	case c.Kind != Expiring && c.TTL != 0:
		return wrong("ttl", "is %v: only an expiring entry has one", c.TTL)
	case c.Kind != Ephemeral && c.Linger != 0:
		return wrong("linger", "is %v: only an ephemeral has one", c.Linger)
	}
	if c.Kind == Expiring {
		if err := checkMillis("ttl", c.TTL, MinTTL, MaxTTL); err != nil {
			return err
		}
	}
	if err := checkMillis("linger", c.Linger, 0, MaxLinger); err != nil {
		return err
	}
	return inField("acl", c.ACL.Check())
}
