// Package disk runs real node processes on disks that fail, fill up, slow down, hang, lie and lose power. It shows that
// nothing acknowledged is lost. Each node has a disk of its own, which is a process: [holdfast/test/disk/faultd]. The
// tests reach nodes as users do, with the client SDK. Run them with "make disks"; the build tag is e2e. See README.md.
package disk
