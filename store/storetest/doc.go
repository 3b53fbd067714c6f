// Package storetest holds a store to the contract of package store: one suite
// of behaviours, the same for every backend.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, storetest.Config{
//			Open:    func(t *testing.T) store.Store { ... },
//			Corrupt: func(t *testing.T, s store.Store, key string, offset int) { ... },
//		})
//	}
//
// Keys are new in every run, so stores may share one place of storage. Each
// behaviour opens a store of its own, and goroutines that outlive its Close are
// a failure: what a backend needs besides, such as servers, has to run before.
// The suite waits for nothing longer than a minute.
package storetest
