// Package memory is a store in the process's own memory: objects up to a budget
// of bytes, the least recently used of which make room for new ones.
//
// Objects are copied in and copied out, once each way and outside of any lock:
// less is not sound, since buffers belong to the caller again when a call
// returns, and an object stays as it was put. An object that is evicted while
// it is read stays whole for that reader.
//
// The budget counts the objects' bytes and not their keys. Of one batch of puts
// only as many of the first items are stored as fit into the budget together;
// the others are store.ErrFull, as is an object larger than the budget. While
// puts are in progress, their copies come on top.
//
// Nothing else can fail: there is no store.ErrUnavailable.
package memory
