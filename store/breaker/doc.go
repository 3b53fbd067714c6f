// Package breaker stops asking a store that is down or too slow, so that each
// request does not wait for it again.
//
// A breaker is a store around a store. Closed, it passes every call on. When
// calls of one operation have failed so many times in a row in a way that says
// that the store is down (store.ErrUnavailable) or too slow (the call's deadline
// passed), it opens: every call fails at once with ErrOpen, which wraps
// store.ErrUnavailable. After a pause one call is let through as a probe, while
// others go on to fail; this is the state half-open. If the probe is answered the
// breaker closes, else it opens again, for twice as long, up to a bound.
//
// Failures are counted by operation, so that a store which answers lookups and
// hangs in reads is found out: a closed breaker whose probe was a lookup opens at
// the next read that fails, and the pause goes on to grow until a read succeeds.
//
// What an answer says of an object is no failure, whatever it says: a store that
// has nothing, is full or read-only, works. Neither is the end of a call whose
// caller has gone, which says nothing of the store. A batch of which the store
// answered some items and could not reach others works in part, and is no failure
// unless its deadline passed.
//
// Alloc and Close are not the breaker's affair: they go to the store beneath in
// every state.
package breaker
