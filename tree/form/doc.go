// Package form writes and reads the forms of the tree on disk: the commands of the log, kept results and wills, and the
// records of snapshots. proto/holdfast/log/v1/tree.proto defines their contents.
//
// The functions write the same bytes as the generated code without using it: fields in the order of their numbers, and
// no zeros. Equal values have equal bytes on all nodes and in all releases, because kept results and wills are part of
// the digest (D6 tree digest).
//
// The functions that read are strict: a replica that guessed would differ from the others for ever. They refuse unknown
// fields, fields in another order, and values out of bounds, with a [tree.FieldError]. The values that they return
// take no more memory than a constant times the input's length. Only the data of operations shares memory with the
// input, because it may be large.
//
// Only [Lists] has state. The functions are safe for concurrent use.
package form
