package operations

import (
	"holdfast/tree"
	"holdfast/zk/jute"
	"holdfast/zk/queue"
)

// operation is a row of the table.
type operation struct {
	// decode reads the record; nil for an operation without a record.
	decode func(t table, d *jute.Decoder) any
	// handle fills in a request; nil for an operation that only a multi can have.
	handle func(h *Handler, r *queue.Request)
	// change makes the tree's operation of a write; result appends the record of its reply.
	change func(h *Handler, op jute.Op, body any) change
	result func(e *jute.Encoder, o *tree.OpOutcome)
	// multi is the operation as which a multi's reply shows a write; 0 for an operation that no multi has.
	multi jute.Op
	// record appends the record of a read's reply.
	record func(e *jute.Encoder, v *entry)
	// multiRead reports whether a multiRead can have the operation.
	multiRead bool
}

// entry is a read's result about an entry.
type entry struct {
	stat  jute.Stat
	data  []byte
	acl   []jute.ACL
	names []string
	count int32
}

type table map[jute.Op]operation

// operations says how each operation is served (Z1 wire). Functions of the rows use [Handler.table]: the compiler
// refuses a table that refers to itself.
//
//nolint:gochecknoglobals // a table
var operations = table{
	jute.Create:          write(jute.ReadCreate, (*Handler).create, pathRecord).inMulti(jute.Create),
	jute.Create2:         write(jute.ReadCreate, (*Handler).create, pathAndStatRecord).inMulti(jute.Create), // N-31
	jute.CreateContainer: write(jute.ReadCreate, (*Handler).create, pathAndStatRecord).inMulti(jute.Create2),
	jute.CreateTTL:       write(jute.ReadCreateTTL, (*Handler).create, pathAndStatRecord).inMulti(jute.Create2),
	jute.Delete:          write(jute.ReadVersion, (*Handler).delete, noRecord).inMulti(jute.Delete),
	jute.SetData:         write(jute.ReadSetData, (*Handler).setData, statRecord).inMulti(jute.SetData),
	jute.SetACL:          write(jute.ReadSetACL, (*Handler).setACL, statRecord),
	jute.Check:           write(jute.ReadVersion, (*Handler).check, noRecord).inMulti(jute.Check).onlyInMulti(),
	jute.Multi:           {decode: decodeMulti, handle: refusedReadOnly((*Handler).multi)},

	jute.Exists: read(jute.ReadWatch, (*Handler).exists, func(e *jute.Encoder, v *entry) { e.Stat(v.stat) }),
	jute.GetData: read(jute.ReadWatch, (*Handler).getData, func(e *jute.Encoder, v *entry) {
		e.Buffer(v.data)
		e.Stat(v.stat)
	}).inMultiRead(),
	jute.GetACL: read(jute.ReadPath, (*Handler).getACL, func(e *jute.Encoder, v *entry) {
		e.ACLs(v.acl)
		e.Stat(v.stat)
	}),
	jute.GetChildren: read(jute.ReadWatch, (*Handler).getChildren, namesRecord).inMultiRead(),
	jute.GetChildren2: read(jute.ReadWatch, (*Handler).getChildren, func(e *jute.Encoder, v *entry) {
		e.Strings(v.names)
		e.Stat(v.stat)
	}),
	jute.GetChildrenNumber: read(jute.ReadPath, (*Handler).getChildrenNumber, func(e *jute.Encoder, v *entry) {
		e.Int(v.count)
	}),
	jute.GetEphemerals: other(jute.ReadPath, (*Handler).getEphemerals),
	jute.MultiRead:     {decode: decodeMulti, handle: (*Handler).multiRead},

	jute.SetWatches:    other(jute.ReadSetWatches, (*Handler).setWatches),
	jute.SetWatches2:   other(jute.ReadSetWatches2, (*Handler).setWatches),
	jute.AddWatch:      other(jute.ReadType, (*Handler).addWatch),
	jute.RemoveWatches: other(jute.ReadType, (*Handler).removeWatches),
	jute.CheckWatches:  other(jute.ReadType, (*Handler).checkWatches),

	jute.Auth:         other(jute.ReadAuth, (*Handler).auth),
	jute.WhoAmI:       {handle: (*Handler).whoAmI},
	jute.Sync:         {decode: decode(jute.ReadPath), handle: refusedReadOnly(handler((*Handler).sync))},
	jute.CloseSession: {handle: (*Handler).closeSession},
	jute.Reconfig:     {handle: refusedReadOnly(func(h *Handler, r *queue.Request) { h.refuse(r, jute.ReconfigDisabled) })},
	jute.SASL:         {handle: func(h *Handler, r *queue.Request) { h.refuseAndEnd(r, jute.AuthFailed, ErrRefused) }},
}

// write makes the row of a write, from its record and its operation of the tree.
func write[R any](
	record func(d *jute.Decoder) R, of func(h *Handler, op jute.Op, body R) change,
	result func(e *jute.Encoder, o *tree.OpOutcome),
) operation {
	return operation{
		decode: decode(record), handle: refusedReadOnly((*Handler).write), result: result,
		change: func(h *Handler, op jute.Op, body any) change {
			return of(h, op, body.(R)) //nolint:errcheck,forcetypeassert // decode makes an R
		},
	}
}

// inMulti lets a multi have the write, and names the operation that the multi's reply shows.
func (o operation) inMulti(shown jute.Op) operation {
	o.multi = shown
	return o
}

// onlyInMulti refuses the write by itself.
func (o operation) onlyInMulti() operation {
	o.handle = nil
	return o
}

// read makes the row of a read of an entry, which may be [configPath].
func read[R interface{ Target() string }](
	record func(d *jute.Decoder) R, handle func(h *Handler, r *queue.Request, body R),
	reply func(e *jute.Encoder, v *entry),
) operation {
	return operation{decode: decode(record), record: reply, handle: orConfig(handle, reply)}
}

// inMultiRead lets a multiRead have the read.
func (o operation) inMultiRead() operation {
	o.multiRead = true
	return o
}

// other makes the row of an operation that is neither a write nor a read of one entry.
func other[R any](record func(d *jute.Decoder) R, handle func(h *Handler, r *queue.Request, body R)) operation {
	return operation{decode: decode(record), handle: handler(handle)}
}

func decode[R any](record func(d *jute.Decoder) R) func(table, *jute.Decoder) any {
	return func(_ table, d *jute.Decoder) any { return record(d) }
}

func handler[R any](handle func(h *Handler, r *queue.Request, body R)) func(h *Handler, r *queue.Request) {
	return func(h *Handler, r *queue.Request) {
		handle(h, r, r.Body.(R)) //nolint:errcheck,forcetypeassert // decode makes an R
	}
}

// decodeMulti reads the elements of a multi or multiRead. It accepts elements of both kinds: the handler refuses a
// mixture with ZooKeeper's code.
func decodeMulti(t table, d *jute.Decoder) any {
	return jute.ReadMulti(d, func(d *jute.Decoder, op jute.Op) (body any, ok bool) {
		row := t[op]
		if row.multi == 0 && !row.multiRead {
			return nil, false
		}
		return row.decode(t, d), true
	})
}

// The records of replies that several operations have.

func noRecord(*jute.Encoder, *tree.OpOutcome) {}

func pathRecord(e *jute.Encoder, o *tree.OpOutcome) { e.String(o.Path) }

func statRecord(e *jute.Encoder, o *tree.OpOutcome) { e.Stat(statOf(o.Stat)) }

func pathAndStatRecord(e *jute.Encoder, o *tree.OpOutcome) {
	e.String(o.Path)
	e.Stat(statOf(o.Stat))
}

func namesRecord(e *jute.Encoder, v *entry) { e.Strings(v.names) }
