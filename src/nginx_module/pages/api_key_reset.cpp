// Gives a client its full limit again: deletes its counters, and tells all hosts.
#include "../../rate_limit/key.hpp"
#include "../../rate_limit/shards.hpp"
#include "../../rate_limit/url_text.hpp"
#include "../../redis_client/hash_slot.hpp"
#include "../../redis_client/live_store.hpp"
#include "../../redis_client/resp.hpp"
#include "../util.hpp"
#include "api_actions.hpp"
#include "api_audit.hpp"
#include "api_operation.hpp"

#include <algorithm>
#include <new>

namespace nginx_module {

namespace {

/// A key of Redis that counts for the client. Lives in the request's pool.
struct CounterKey {
    std::string_view counter; // the name of the rule's counter, for messages
    std::string_view redis_key;
    CounterKey *next;
};

/// Deletes the counters of one hash slot, and the client's blocks, which stand beside them. Which
/// rules of other hosts block is not known.
class DeleteCounters final : public ApiCommand {
  public:
    DeleteCounters(uint16_t of_keys, DeleteCounters *a_next) : next(a_next) { hash_slot = of_keys; }

    bool has(std::string_view redis_key) const {
        const CounterKey *key = keys;
        while (key != nullptr && key->redis_key != redis_key) {
            key = key->next;
        }
        return key != nullptr;
    }

    bool write(redis_client::ByteQueue &out) const override {
        constexpr std::string_view unlink = "UNLINK";
        size_t count = 1;
        size_t bytes = unlink.size();
        for (const CounterKey *key = keys; key != nullptr; key = key->next) {
            count += 2;
            bytes += 2 * key->redis_key.size() + rate_limit::block_suffix.size();
        }
        redis_client::CommandWriter command(out, count, bytes);
        if (!command.ok()) {
            return false;
        }
        command.word(unlink);
        for (const CounterKey *key = keys; key != nullptr; key = key->next) {
            command.word(key->redis_key);
            command.word(key->redis_key, rate_limit::block_suffix);
        }
        return true;
    }
    bool read(redis_client::ReplyView reply) override {
        deleted = static_cast<uint64_t>(std::max(reply.number().value_or(0), 0LL));
        return reply.number().has_value();
    }

    CounterKey *keys = nullptr;
    uint64_t deleted = 0;
    DeleteCounters *const next;
};

class ResetKey final : public ApiOperation {
  public:
    explicit ResetKey(ApiRequest &a_request)
        : ApiOperation(a_request), author_(author_of(a_request.r)), find_(*this), tell_(*this) {
        find_.hash_slot = tell_.hash_slot = store().hash_slot();
    }

  private:
    /// Asks which counters any host has for the zone.
    struct FindCounters final : ApiCommand {
        explicit FindCounters(ResetKey &an_owner) : owner(an_owner) {}
        bool write(redis_client::ByteQueue &out) const override {
            return owner.store().write_counters_query(out, owner.request_.zone->name);
        }
        bool read(redis_client::ReplyView reply) override {
            for (const auto &[name, shards] : redis_client::read_counters(reply)) {
                owner.add_counter(name, shards);
            }
            return true;
        }
        ResetKey &owner;
    };

    /// Tells all hosts to forget what was asked before.
    struct TellHosts final : ApiCommand {
        explicit TellHosts(ResetKey &an_owner) : owner(an_owner) {}
        bool write(redis_client::ByteQueue &out) const override {
            const ApiRequest &of = owner.request_;
            return owner.store().write_reset(out,
                                             {.zone = of.zone->name,
                                              .encoded_key = of.key.encoded,
                                              .rule = {},
                                              .is_reset = true},
                                             owner.author_);
        }
        bool read(redis_client::ReplyView reply) override {
            return redis_client::read_written(reply).has_value();
        }
        ResetKey &owner;
    };

    enum class Stage { begin, finding, deleting, telling };

    Step proceed() override {
        switch (stage_) {
        case Stage::begin:
            stage_ = Stage::finding;
            run(find_);
            return Step::waits();
        case Stage::finding:
            return find_.failure().empty()
                       ? delete_counters()
                       : fail(find_.error(pool(), "nothing deleted, the rules are not known"));
        case Stage::deleting:
            return tell_hosts();
        case Stage::telling:
            break;
        }
        return tell_.failure().empty()
                   ? succeed()
                   : fail(tell_.error(pool(), "counters deleted, but hosts still know denials"));
    }

    Step delete_counters() {
        // A host registers its rules when it starts, and perhaps has not come to that yet.
        for (const auto &rule : main_conf_of(request_.r).rules) {
            if (rule->zone == request_.zone) {
                add_counter(rate_limit::counter_name(rule->rule), rule->rule.shards);
            }
        }
        if (is_short_of_memory_) {
            return Step::answered(NGX_HTTP_INTERNAL_SERVER_ERROR);
        }
        stage_ = Stage::deleting;
        for (DeleteCounters *command = deletes_; command != nullptr; command = command->next) {
            run(*command);
        }
        return deletes_ != nullptr ? Step::waits() : tell_hosts();
    }

    /// Counters come first: a host that forgets a denial asks for it again.
    Step tell_hosts() {
        const DeleteCounters *failed = nullptr;
        for (const DeleteCounters *one = deletes_; one != nullptr; one = one->next) {
            deleted_ += one->deleted;
            failed = one->failure().empty() ? failed : one;
        }
        if (failed != nullptr) {
            return fail(failed->error(pool(), names_of_failed()));
        }
        stage_ = Stage::telling;
        run(tell_);
        return Step::waits();
    }

    Step succeed() {
        log_write(request_, "reset", describe(pool(), ", ", deleted_, " counters deleted"));
        if (const auto error = error_if_not_followed("counters deleted")) {
            return Step::answered(send_error(request_.r, *error));
        }
        JsonWriter json(pool());
        json.begin_object();
        json.member("deleted", deleted_);
        json.end_object();
        return Step::answered(send_json(request_.r, json.finish()));
    }
    Step fail(const ApiError &error) {
        log_write(request_, "reset", describe(pool(), ", failed: ", error.description));
        return Step::answered(send_error(request_.r, error));
    }
    void on_abandoned() override { log_write(request_, "reset", ", outcome unknown"); }

    /// Lists the counters that are still there.
    std::string_view names_of_failed() const {
        std::array<char, 512> buffer;
        rate_limit::TextWriter names(buffer);
        names << "not deleted: ";
        std::string_view separator;
        for (const DeleteCounters *one = deletes_; one != nullptr; one = one->next) {
            for (const CounterKey *key = one->keys; key != nullptr; key = key->next) {
                if (!one->failure().empty() && names.size() < buffer.size() - 128) {
                    names << separator << key->counter;
                    separator = ", ";
                }
            }
        }
        return describe(pool(), std::string_view(buffer.data(), names.size()));
    }

    /// Adds the keys of all shards. A name that is none of ours is left out.
    void add_counter(std::string_view name, uint64_t shards) {
        if (!rate_limit::is_counter_name(name) || shards > rate_limit::most_shards) {
            return;
        }
        const ApiRequest &of = request_;
        const rate_limit::KeyFormat format(of.backend().prefix, of.zone->name, name, shards);
        rate_limit::RedisKeyBuffer buffer;
        for (uint64_t shard = 0; shard < shards; ++shard) {
            add_key(name, shards > 1 ? format.write_encoded(of.key.encoded, shard, buffer)
                                     : format.write_encoded(of.key.encoded, buffer));
        }
    }

    void add_key(std::string_view counter, std::string_view redis_key) {
        const bool is_cluster = request_.backend().mode == Mode::cluster;
        DeleteCounters *command = delete_of(is_cluster ? redis_client::hash_slot(redis_key) : 0);
        if (command == nullptr || command->has(redis_key)) {
            return;
        }
        auto *key = pool_array<CounterKey>(pool(), 1);
        is_short_of_memory_ = is_short_of_memory_ || key == nullptr ||
                              !copy_text(pool(), counter) || !copy_text(pool(), redis_key);
        if (!is_short_of_memory_) {
            *key = {.counter = counter, .redis_key = redis_key, .next = command->keys};
            command->keys = key;
        }
    }

    DeleteCounters *delete_of(uint16_t hash_slot) {
        DeleteCounters *command = deletes_;
        while (command != nullptr && command->hash_slot != hash_slot) {
            command = command->next;
        }
        void *memory = command == nullptr ? ngx_palloc(pool(), sizeof(DeleteCounters)) : nullptr;
        if (memory != nullptr) {
            deletes_ = command = new (memory) DeleteCounters(hash_slot, deletes_);
        }
        is_short_of_memory_ = is_short_of_memory_ || command == nullptr;
        return command;
    }

    const redis_client::LiveStore &store() const { return request_.live_store(); }

    std::string_view author_;
    Stage stage_ = Stage::begin;
    FindCounters find_;
    DeleteCounters *deletes_ = nullptr;
    TellHosts tell_;
    uint64_t deleted_ = 0;
    bool is_short_of_memory_ = false;
};

} // namespace

ngx_int_t reset_key(ApiRequest &request) {
    return begin_operation<ResetKey>(request);
}

} // namespace nginx_module
