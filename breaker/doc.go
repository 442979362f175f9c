// Package breaker keeps calls away from a model that is known to fail, for a
// whole fleet of processes at once.
//
//	          failures of window            until passed, lease taken
//	closed ────────────────────────▶ open ──────────────────────────▶ half-open
//	   ▲                              ▲  ◀── probe failed, cooldown × 2 ──┘ │
//	   └──────────────────────────────┼──────────── probe succeeded ────────┘
//
// Decisions are one pure function, [Step]; the [Memory] store is a mutex around
// it and the [Redis] store a script that agrees with it, reply for reply and
// field for field.
//
// The package knows nothing of providers or queues: who calls maps an outcome
// to a [Report].
package breaker
