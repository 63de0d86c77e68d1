// Package form writes and reads the forms of the tree on disk: the commands of the log, kept results and wills, and the
// records of snapshots. proto/holdfast/log/v1/tree.proto says what they hold.
//
// The functions write without the generated code, and the same bytes as it does: fields in the order of their numbers,
// and no zeros. Equal values have equal bytes on all nodes and in all releases, because kept results and wills are part
// of the digest (D6).
//
// The functions that read are strict: a replica that guessed would differ from the others for ever. They refuse fields
// that they do not know, fields in another order, and values out of bounds, with a [tree.FieldError]. What they return
// shares no memory with the bytes, and takes no more memory than a constant times their length.
//
// The package has no state but that of [Lists]. Its functions are safe for concurrent use.
package form
