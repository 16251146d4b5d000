package telemetry

import "go.opentelemetry.io/otel/attribute"

// Unknown is a number of tokens that nobody reported. It is not zero.
const Unknown = -1

// Usage is the number of tokens that one attempt used, each Unknown unless reported. Parts do not overlap, but
// CacheWrite5m and CacheWrite1h are parts of CacheWrite, and Reasoning is one of Output.
type Usage struct {
	Input        int64 // uncached
	CacheRead    int64
	CacheWrite   int64
	CacheWrite5m int64
	CacheWrite1h int64
	Output       int64
	Reasoning    int64
}

// NoUsage returns the usage of an attempt that reported none.
func NoUsage() Usage { return Usage{Unknown, Unknown, Unknown, Unknown, Unknown, Unknown, Unknown} }

// TotalInput is the sum of the known parts of the input, cached tokens included; Unknown if none is known.
func (u Usage) TotalInput() int64 { return sum(sum(u.Input, u.CacheRead), u.TotalCacheWrite()) }

// TotalCacheWrite is CacheWrite, or if only its parts were reported, their sum.
func (u Usage) TotalCacheWrite() int64 {
	if u.CacheWrite >= 0 {
		return u.CacheWrite
	}
	return sum(u.CacheWrite5m, u.CacheWrite1h)
}

// sum adds two numbers that may be unknown; it is unknown only if both are.
func sum(a, b int64) int64 {
	if a < 0 || b < 0 {
		return max(a, b, Unknown)
	}
	return a + b
}

// Plus is the usage of two attempts together. A number is Unknown only if it is in both.
func (u Usage) Plus(v Usage) Usage {
	return Usage{
		Input: sum(u.Input, v.Input), CacheRead: sum(u.CacheRead, v.CacheRead), CacheWrite: sum(u.TotalCacheWrite(), v.TotalCacheWrite()),
		CacheWrite5m: sum(u.CacheWrite5m, v.CacheWrite5m), CacheWrite1h: sum(u.CacheWrite1h, v.CacheWrite1h),
		Output: sum(u.Output, v.Output), Reasoning: sum(u.Reasoning, v.Reasoning),
	}
}

// Attributes appends what is known for an attempt's span, zeros included.
func (u Usage) Attributes(dst []attribute.KeyValue) []attribute.KeyValue {
	put := func(key string, n int64) {
		if n >= 0 {
			dst = append(dst, attribute.Int64(key, n))
		}
	}
	put(AttrUsageInput, u.TotalInput())
	put(AttrUsageOutput, u.Output)
	put(AttrUsageCacheRead, u.CacheRead)
	put(AttrUsageCacheWrite, u.TotalCacheWrite())
	put(AttrUsageCacheWrite5, u.CacheWrite5m)
	put(AttrUsageCacheWriteH, u.CacheWrite1h)
	put(AttrUsageReasoning, u.Reasoning)
	return dst
}
