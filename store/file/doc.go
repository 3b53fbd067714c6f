// Package file is a store in a folder: the embedded default, which needs no
// server, is shared by the processes of one machine and survives restarts.
//
// # The folder
//
//	usage        the lock of the folder, and how many bytes each shard holds
//	tmp/         objects that are being written
//	00/ ... ff/  objects, by the first two digits of their name
//
// An object's name is the SHA-256 of its key, so keys are any bytes and lead
// nowhere else. The file is the object's bytes and a footer with the key and
// the object's length; a file whose footer is not what its key and size demand
// is not an object, and a reader removes it. The folder has to be the user's own
// and closed to all others: folders are 0700, files 0600.
//
// # Putting
//
// A put writes a file in tmp and links it to its name: whole or not at all, and
// never over another. The writer holds a lock on its file in tmp (flock, gone
// with the process, however it dies); files there without one are leftovers,
// and are removed by the next Open, or when room is needed. So a process may be
// killed at any moment.
//
// Nothing is synced to disk. After a crash of the machine, objects of the last
// seconds may be missing or short, which their length and footer show, or hold
// zeroes, which the seal shows. Syncing would cost every put the disk's time,
// for a page that is cheaper to compute again.
//
// # The budget
//
// Files in the folder take at most the budget: objects and their footers in whole
// blocks of 4 KiB, and those being written; room is made before the first byte is
// written. What comes on top is the usage file and the folders. Processes with
// different budgets each keep to their own.
//
// Room is made by one process at a time, under the lock of the folder. It takes
// shards at random until it has seen 512 objects, or all when there are fewer,
// and removes the least recently used of these: so the work of a put is bounded
// however many objects there are. The time of last use is the file's modification
// time, renewed by BatchExist, BatchGet and BatchPut when it is a minute old.
// Those who read never wait for the lock: an object that is removed while it is
// read stays whole for that reader.
//
// The byte counts in the usage file are never too low, whenever a process is
// killed. They may be too high then, until their shard is next looked at. Those
// of an earlier boot are not trusted and counted anew.
//
// # Failing
//
// A full disk is treated like a spent budget first, then it is store.ErrFull; a
// folder that cannot be written to is store.ErrReadOnly for puts, and reads work;
// everything else that the system refuses is store.ErrUnavailable. So is the lock
// when someone holds it for longer than ten seconds.
package file
