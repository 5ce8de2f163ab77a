/* A libnvidia-ml.so.1 that answers from a scenario file, for tests that load it with the real pynvml.
 *
 * The file is named by the environment variable NVML_SCENARIO. A line is `key value`; keys are `init`, `count`,
 * `driver`, `gpu0`, `gpu0.uuid`, `gpu0.link3.remote`, `gpu0.ancestor1` and so on. A value `!15` is that error, `!hang`
 * never returns, `!crash` dies of SIGSEGV. What has no line is not supported.
 *
 * Built with -DOLD it lacks the symbols that old drivers lack.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int ret_t;
typedef void *gpu_t;
enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3 };

static ret_t look_up(const char *key, char *value, size_t size) {
    const char *path = getenv("NVML_SCENARIO");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[4096];
    ret_t result = NOT_SUPPORTED;
    size_t length = strlen(key);
    value[0] = 0;
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, key, length) == 0 && line[length] == ' ') {
            snprintf(value, size, "%s", line + length + 1);
            result = SUCCESS;
            break;
        }
    }
    if (file) fclose(file);
    if (value[0] != '!') return result;
    if (strcmp(value, "!hang") == 0) for (;;) pause();
    if (strcmp(value, "!crash") == 0) *(volatile int *)0 = 0;
    return atoi(value + 1);
}

static ret_t about(gpu_t gpu, const char *fact, char *value, size_t size) {
    char key[128];
    snprintf(key, sizeof key, "gpu%d.%s", (int)((intptr_t)gpu - 1), fact);
    return look_up(key, value, size);
}

static ret_t number(gpu_t gpu, const char *fact, unsigned *out) {
    char value[256];
    ret_t result = about(gpu, fact, value, sizeof value);
    if (result == SUCCESS) *out = (unsigned)strtoul(value, NULL, 0);
    return result;
}

static ret_t link_number(gpu_t gpu, unsigned link, const char *fact, unsigned *out) {
    char key[64];
    snprintf(key, sizeof key, "link%u.%s", link, fact);
    return number(gpu, key, out);
}

struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };

static ret_t address(gpu_t gpu, const char *fact, struct pci *out) {
    char value[256];
    ret_t result = about(gpu, fact, value, sizeof value);
    if (result != SUCCESS) return result;
    memset(out, 0, sizeof *out);
    sscanf(value, "%x:%x:%x", &out->domain, &out->bus, &out->device);
    snprintf(out->bus_id, sizeof out->bus_id, "%08X:%02X:%02X.0", out->domain, out->bus, out->device);
    return SUCCESS;
}

ret_t nvmlInitWithFlags(unsigned flags) {
    char value[64];
    ret_t result = look_up("init", value, sizeof value);
    (void)flags;
    return result == NOT_SUPPORTED ? SUCCESS : result;
}
ret_t nvmlShutdown(void) { return SUCCESS; }
ret_t nvmlSystemGetDriverVersion(char *out, unsigned size) { return look_up("driver", out, size); }

ret_t nvmlDeviceGetCount_v2(unsigned *out) {
    char value[64];
    ret_t result = look_up("count", value, sizeof value);
    *out = (unsigned)atoi(value);
    return result;
}
ret_t nvmlDeviceGetHandleByIndex_v2(unsigned index, gpu_t *out) {
    char key[32], value[64];
    snprintf(key, sizeof key, "gpu%u", index);
    *out = (gpu_t)(intptr_t)(index + 1);
    ret_t result = look_up(key, value, sizeof value);
    return result == NOT_SUPPORTED ? SUCCESS : result;
}

ret_t nvmlDeviceGetUUID(gpu_t g, char *out, unsigned size) { return about(g, "uuid", out, size); }
ret_t nvmlDeviceGetName(gpu_t g, char *out, unsigned size) { return about(g, "name", out, size); }
ret_t nvmlDeviceGetMinorNumber(gpu_t g, unsigned *out) { return number(g, "minor", out); }
ret_t nvmlDeviceGetPciInfo_v3(gpu_t g, struct pci *out) { return address(g, "pci", out); }
ret_t nvmlDeviceGetMaxPcieLinkGeneration(gpu_t g, unsigned *out) { return number(g, "pcie_gen", out); }
ret_t nvmlDeviceGetMaxPcieLinkWidth(gpu_t g, unsigned *out) { return number(g, "pcie_width", out); }
ret_t nvmlDeviceGetMemoryInfo(gpu_t g, uint64_t out[3]) {
    char value[64];
    ret_t result = about(g, "memory", value, sizeof value);
    out[0] = out[1] = strtoull(value, NULL, 10);
    return result;
}
ret_t nvmlDeviceGetCudaComputeCapability(gpu_t g, int *major, int *minor) {
    char value[64];
    ret_t result = about(g, "capability", value, sizeof value);
    return result == SUCCESS && sscanf(value, "%d.%d", major, minor) != 2 ? 999 : result;
}
ret_t nvmlDeviceGetP2PStatus(gpu_t g, gpu_t other, unsigned index, unsigned *out) {
    char fact[32];
    (void)index;
    snprintf(fact, sizeof fact, "p2p%d", (int)((intptr_t)other - 1));
    return number(g, fact, out);
}
ret_t nvmlDeviceGetTopologyCommonAncestor(gpu_t g, gpu_t other, unsigned *out) {
    char fact[32];
    snprintf(fact, sizeof fact, "ancestor%d", (int)((intptr_t)other - 1));
    return number(g, fact, out);
}

ret_t nvmlDeviceGetNvLinkState(gpu_t g, unsigned link, unsigned *out) {
    unsigned links = 0;
    ret_t result = number(g, "links", &links);
    if (result != SUCCESS) return result;
    if (link >= links) return INVALID_ARGUMENT;
    result = link_number(g, link, "state", out);
    if (result == NOT_SUPPORTED) *out = 1;
    return result == NOT_SUPPORTED ? SUCCESS : result;
}
ret_t nvmlDeviceGetNvLinkVersion(gpu_t g, unsigned link, unsigned *out) { return link_number(g, link, "version", out); }
ret_t nvmlDeviceGetNvLinkRemotePciInfo_v2(gpu_t g, unsigned link, struct pci *out) {
    char fact[64];
    snprintf(fact, sizeof fact, "link%u.pci", link);
    return address(g, fact, out);
}

#ifndef OLD
ret_t nvmlDeviceGetArchitecture(gpu_t g, unsigned *out) { return number(g, "architecture", out); }
ret_t nvmlDeviceGetNumaNodeId(gpu_t g, unsigned *out) { return number(g, "memory_numa", out); }
ret_t nvmlDeviceGetNvLinkRemoteDeviceType(gpu_t g, unsigned link, unsigned *out) {
    return link_number(g, link, "remote", out);
}
ret_t nvmlDeviceGetMigMode(gpu_t g, unsigned *current, unsigned *pending) {
    *pending = 0;
    return number(g, "mig", current);
}
ret_t nvmlDeviceGetMemoryAffinity(gpu_t g, unsigned words, uint64_t *out, unsigned scope) {
    char value[1024], *item;
    ret_t result = about(g, "affinity", value, sizeof value);
    (void)scope;
    memset(out, 0, words * sizeof *out);
    for (item = strtok(value, ","); item && result == SUCCESS; item = strtok(NULL, ",")) {
        unsigned node = (unsigned)atoi(item);
        if (node / 64 < words) out[node / 64] |= (uint64_t)1 << node % 64;
    }
    return result;
}
struct fabric { unsigned version; unsigned char cluster[16]; int status; unsigned clique; unsigned char state;
                unsigned health; };
ret_t nvmlDeviceGetGpuFabricInfoV(gpu_t g, struct fabric *out) {
    char value[256];
    unsigned state = 0, byte, place;
    ret_t result = about(g, "fabric", value, sizeof value); /* 32 hex digits, clique, state */
    if (result != SUCCESS) return result;
    if (out->version != 0x02000024) return 25;
    for (place = 0; place < 16 && sscanf(value + 2 * place, "%2x", &byte) == 1; place++)
        out->cluster[place] = (unsigned char)byte;
    sscanf(value + 32, " %u %u", &out->clique, &state);
    out->state = (unsigned char)state;
    out->status = SUCCESS;
    return SUCCESS;
}
struct field { uint32_t id, scope; int64_t at, took; int type; ret_t result; union { unsigned u; uint64_t ull; } value; };
ret_t nvmlDeviceGetFieldValues(gpu_t g, int count, struct field *fields) {
    for (int place = 0; place < count; place++)
        fields[place].result = fields[place].id == 165
            ? link_number(g, fields[place].scope, "field", &fields[place].value.u) : NOT_SUPPORTED;
    return SUCCESS;
}
#endif
