/*
 * A CUDA driver of GPUs that are this process' memory, with the types and names of cuda.h. It
 * shows that probe/driver.go calls functions as they are declared. LIBCUDA_GPUS is how
 * many there are, LIBCUDA_INIT what cuInit returns; LIBCUDA_HANG and LIBCUDA_CRASH name a
 * function in which that happens, and LIBCUDA_FLIP the offset of a byte that peer copies get wrong.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct context { int device; int peers; int retained; size_t used; } *CUcontext;
typedef struct stream { CUcontext context; } *CUstream;
typedef struct event { struct timespec at; int recorded; } *CUevent;
typedef struct module { int loaded; } *CUmodule;
typedef struct function { char name[16]; } *CUfunction;
typedef struct { char bytes[16]; } CUuuid;

enum { MAX_GPUS = 16, TOTAL = 1 << 30 };
static struct context contexts[MAX_GPUS];
static __thread CUcontext current;
static int initialised;

static int number(const char *name, int otherwise)
{
	const char *s = getenv(name);
	return s ? atoi(s) : otherwise;
}

static void misbehave(const char *function)
{
	const char *hang = getenv("LIBCUDA_HANG"), *crash = getenv("LIBCUDA_CRASH");
	if (hang && !strcmp(hang, function))
		for (;;)
			pause();
	if (crash && !strcmp(crash, function))
		abort();
}

#define BEGIN do { misbehave(__func__); if (!initialised) return 3; } while (0)
#define IN_CONTEXT do { BEGIN; if (!current) return 201; } while (0)
#define VALID_DEVICE(d) do { if ((d) < 0 || (d) >= number("LIBCUDA_GPUS", 2)) return 101; } while (0)

CUresult cuInit(unsigned int flags)
{
	misbehave(__func__);
	if (flags)
		return 1;
	CUresult r = number("LIBCUDA_INIT", 0);
	initialised = r == 0;
	return r;
}

CUresult cuGetErrorName(CUresult code, const char **text)
{
	*text = code == 802 ? "CUDA_ERROR_SYSTEM_NOT_READY" : code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : NULL;
	return *text ? 0 : 1;
}

CUresult cuGetErrorString(CUresult code, const char **text)
{
	*text = code == 802 ? "system not yet initialized" : code == 2 ? "out of memory" : NULL;
	return *text ? 0 : 1;
}

CUresult cuDriverGetVersion(int *version) { *version = 13000; return 0; }
CUresult cuDeviceGetCount(int *count) { BEGIN; *count = number("LIBCUDA_GPUS", 2); return 0; }
CUresult cuDeviceGet(CUdevice *device, int ordinal) { BEGIN; VALID_DEVICE(ordinal); *device = ordinal; return 0; }

CUresult cuDeviceGetName(char *name, int len, CUdevice d)
{
	BEGIN;
	VALID_DEVICE(d);
	snprintf(name, len, "NVIDIA H200");
	return 0;
}

/* The order is not that of addresses. */
CUresult cuDeviceGetPCIBusId(char *id, int len, CUdevice d)
{
	BEGIN;
	VALID_DEVICE(d);
	if (len < 13)
		return 1;
	snprintf(id, len, "0000:%02X:00.0", 0xFA - 16 * d);
	return 0;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice d)
{
	BEGIN;
	VALID_DEVICE(d);
	for (int i = 0; i < 16; i++)
		uuid->bytes[i] = 16 * d + i;
	return 0;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice d) { BEGIN; VALID_DEVICE(d); *bytes = TOTAL; return 0; }

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice d)
{
	BEGIN;
	VALID_DEVICE(d);
	if (attribute != 20)
		return 1;
	*value = number("LIBCUDA_COMPUTE_MODE", 0);
	return 0;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice d, CUdevice peer)
{
	BEGIN;
	VALID_DEVICE(d);
	VALID_DEVICE(peer);
	*can = d != peer;
	return 0;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice d)
{
	BEGIN;
	VALID_DEVICE(d);
	contexts[d].device = d;
	contexts[d].retained++;
	*context = &contexts[d];
	return 0;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice d)
{
	BEGIN;
	VALID_DEVICE(d);
	memset(&contexts[d], 0, sizeof contexts[d]);
	return 0;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
	BEGIN;
	if (!context->retained)
		return 201;
	current = context;
	return 0;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
	IN_CONTEXT;
	if (flags || peer == current)
		return 1;
	if (current->peers & 1 << peer->device)
		return 704;
	current->peers |= 1 << peer->device;
	return 0;
}

CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
	IN_CONTEXT;
	if (!(current->peers & 1 << peer->device))
		return 705;
	current->peers &= ~(1 << peer->device);
	return 0;
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
	IN_CONTEXT;
	*total = TOTAL;
	*free = TOTAL - current->used;
	return 0;
}

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t size)
{
	IN_CONTEXT;
	if (current->used + size > TOTAL)
		return 2;
	void *p = malloc(size);
	memset(p, 0xdb, size);
	current->used += size;
	*pointer = (uintptr_t)p;
	return 0;
}

static CUresult on(CUstream s)
{
	if (!current)
		return 201;
	return s && s->context == current ? 0 : 400;
}
#define ON(s) do { BEGIN; CUresult r = on(s); if (r) return r; } while (0)

CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char value, size_t count, CUstream s)
{
	ON(s);
	memset((void *)(uintptr_t)p, value, count);
	return 0;
}

CUresult cuMemcpyDtoH_v2(void *host, CUdeviceptr p, size_t size)
{
	IN_CONTEXT;
	memcpy(host, (void *)(uintptr_t)p, size);
	return 0;
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext toContext, CUdeviceptr from, CUcontext fromContext, size_t size, CUstream s)
{
	ON(s);
	if (toContext == fromContext || fromContext != current)
		return 1;
	memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, size);
	int flip = number("LIBCUDA_FLIP", -1);
	if (flip >= 0 && (size_t)flip < size && current->peers & 1 << toContext->device)
		((unsigned char *)(uintptr_t)to)[flip] ^= 0x10;
	return 0;
}

CUresult cuStreamCreate(CUstream *s, unsigned int flags)
{
	IN_CONTEXT;
	if (flags > 1)
		return 1;
	*s = calloc(1, sizeof **s);
	(*s)->context = current;
	return 0;
}

CUresult cuStreamSynchronize(CUstream s) { ON(s); return 0; }

CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned int flags)
{
	ON(s);
	return e->recorded && !flags ? 0 : 1;
}

CUresult cuEventCreate(CUevent *e, unsigned int flags)
{
	IN_CONTEXT;
	*e = calloc(1, sizeof **e);
	return flags ? 1 : 0;
}

CUresult cuEventRecord(CUevent e, CUstream s)
{
	ON(s);
	clock_gettime(CLOCK_MONOTONIC, &e->at);
	e->recorded = 1;
	return 0;
}

CUresult cuEventElapsedTime(float *ms, CUevent begin, CUevent end)
{
	IN_CONTEXT;
	if (!begin->recorded || !end->recorded)
		return 400;
	*ms = (end->at.tv_sec - begin->at.tv_sec) * 1e3f + (end->at.tv_nsec - begin->at.tv_nsec) / 1e6f;
	return 0;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	IN_CONTEXT;
	if (!strstr(image, ".version") || !strstr(image, ".entry compare("))
		return 218;
	*module = calloc(1, sizeof **module);
	return 0;
}

CUresult cuModuleGetFunction(CUfunction *f, CUmodule module, const char *name)
{
	IN_CONTEXT;
	(void)module;
	if (strcmp(name, "fill") && strcmp(name, "compare") && strcmp(name, "delay"))
		return 500;
	*f = calloc(1, sizeof **f);
	strcpy((*f)->name, name);
	return 0;
}

static uint64_t word(uint64_t seed, uint64_t i)
{
	uint64_t x = (seed + i) * 0x9E3779B97F4A7C15;
	return x ^ x >> 32;
}

CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
			unsigned int bz, unsigned int shared, CUstream s, void **parameters, void **extra)
{
	ON(s);
	if (!gx || gy != 1 || gz != 1 || !bx || bx > 1024 || by != 1 || bz != 1 || shared || extra)
		return 1;
	uint64_t *first = parameters[0];
	if (!strcmp(f->name, "delay"))
		return *first < 1000000000 ? 0 : 1;
	uint64_t *data = (uint64_t *)(uintptr_t)*first, words = *(uint64_t *)parameters[1], seed = *(uint64_t *)parameters[2];
	if (!strcmp(f->name, "fill")) {
		for (uint64_t i = 0; i < words; i++)
			data[i] = word(seed, i);
		return 0;
	}
	uint64_t *result = (uint64_t *)(uintptr_t)*(uint64_t *)parameters[3];
	for (uint64_t i = 0; i < words; i++) {
		uint64_t want = word(seed, i);
		const unsigned char *a = (unsigned char *)&data[i], *b = (unsigned char *)&want;
		if (data[i] == want)
			continue;
		result[1]++;
		for (int k = 0; k < 8; k++)
			if (a[k] != b[k]) {
				result[0]++;
				if (8 * i + k < result[2])
					result[2] = 8 * i + k;
			}
	}
	return 0;
}
