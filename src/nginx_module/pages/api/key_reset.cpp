// Gives a client its full limit again: deletes its counters, and tells all hosts.
#include "nginx_module/pages/api/actions.hpp"
#include "nginx_module/pages/api/audit.hpp"
#include "nginx_module/pages/api/operation.hpp"
#include "nginx_module/util.hpp"
#include "nginx_module/worker/worker.hpp"
#include "rate_limit/text/key.hpp"
#include "rate_limit/text/text_writer.hpp"
#include "redis_client/control/counter_deletion.hpp"
#include "redis_client/control/live_store.hpp"

#include <algorithm>
#include <array>

namespace nginx_module {

namespace {

using redis_client::CounterDeletion;
using redis_client::CounterOwner;
using redis_client::CounterPortion;

/// Deletes portions of counters, one after another: each by one command or, where its keys are on
/// two nodes of a cluster, key by key.
class DeleteCounters final : public ApiCommand {
  public:
    void begin(const CounterPortion &portion, const CounterOwner &owner, bool has_hash_slots) {
        portion_ = portion;
        owner_ = &owner;
        key_.reset();
        is_busy_ = true;
        hash_slot = has_hash_slots ? redis_client::hash_slot_of(portion, owner) : 0;
    }
    bool is_busy() const { return is_busy_; }

    /// The command has ended. Returns whether it is to be run once more, for another key.
    bool goes_on() {
        if (is_of_two_nodes() && !key_) {
            key_ = 0;
            return true;
        }
        if (!failure().empty()) {
            const size_t deleted = key_.value_or(0) / 2;
            for (redis_client::CounterToDelete &counter : portion_.counters.subspan(deleted)) {
                counter.is_left = true;
            }
        } else if (key_ && ++*key_ < portion_.key_count()) {
            return true;
        }
        is_busy_ = false;
        return false;
    }

    bool write(redis_client::ByteQueue &out) const override {
        return key_ ? redis_client::write_deletion(out, portion_, *owner_, *key_)
                    : redis_client::write_deletion(out, portion_, *owner_);
    }
    bool read(redis_client::ReplyView reply) override {
        deleted_ += static_cast<uint64_t>(std::max(reply.number().value_or(0), 0LL));
        return reply.number().has_value();
    }
    uint64_t deleted() const { return deleted_; }

  private:
    CounterPortion portion_;
    const CounterOwner *owner_ = nullptr;
    std::optional<size_t> key_; // if they are deleted one by one
    bool is_busy_ = false;
    uint64_t deleted_ = 0; // by all portions
};

class ResetKey final : public ApiOperation {
  public:
    explicit ResetKey(ApiRequest &a_request)
        : ApiOperation(a_request),
          author_(author_of(a_request.r)),
          owner_{.prefix = a_request.backend().prefix,
                 .zone = a_request.zone->name,
                 .encoded_key = a_request.key.encoded},
          counters_(pool_new<CounterDeletion>(pool(), destroy<CounterDeletion>)),
          find_(*this),
          tell_(*this) {
        find_.hash_slot = tell_.hash_slot = store().hash_slot();
    }

  private:
    /// How many portions are under way at once.
    static constexpr size_t most_deletes = 64;

    /// How many pages of registered counters are read, of all zones.
    static constexpr int most_pages = 256;

    /// Asks which counters any host has for the zone, page by page.
    struct FindCounters final : ApiCommand {
        explicit FindCounters(ResetKey &an_owner) : owner(an_owner) {}
        bool write(redis_client::ByteQueue &out) const override {
            return owner.store().write_counters_query(out, registry, cursor,
                                                      owner.request_.zone->name);
        }
        bool read(redis_client::ReplyView reply) override {
            const auto page = redis_client::read_counters(reply);
            if (!page) {
                return false;
            }
            cursor = page->next;
            for (const auto &[name, shards] : page->counters) {
                owner.add_counter(name, shards);
            }
            return true;
        }
        /// Goes on to the next registry if there are no more pages. Returns false if that was all.
        bool goes_on() {
            if (cursor == 0 && registry == redis_client::Registry::of_calendars) {
                return false;
            }
            if (cursor == 0) {
                registry = redis_client::Registry::of_calendars;
            }
            return true;
        }
        ResetKey &owner;
        redis_client::Registry registry = redis_client::Registry::of_lengths;
        uint64_t cursor = 0;
        int pages = 0;
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
                                             owner.author_,
                                             redis_client::new_epoch(of.limits.worker->world),
                                             of.backend().memory.known());
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
            return begin_to_find();
        case Stage::finding:
            return find_more();
        case Stage::deleting:
            return delete_more();
        case Stage::telling:
            break;
        }
        if (!tell_.failure().empty()) {
            return fail(tell_.error(pool(), "counters deleted, but hosts still know denials"));
        }
        return are_too_many_ ? fail(too_many()) : succeed();
    }

    /// A host registers its rules when it starts, and perhaps has not come to that yet.
    Step begin_to_find() {
        if (counters_ == nullptr) {
            return Step::answered(NGX_HTTP_INTERNAL_SERVER_ERROR);
        }
        for (const auto &rule : request_.limits.conf->rules) {
            if (rule->zone == request_.zone) {
                add_counter(rate_limit::counter_name(rule->rule), rule->rule.shards);
            }
        }
        run(find_);
        return Step::waits();
    }

    Step find_more() {
        if (!find_.failure().empty()) {
            return fail(find_.error(pool(), "nothing deleted, the rules are not known"));
        }
        const bool is_last = !find_.goes_on();
        if (!is_last && !are_too_many_ && ++find_.pages < most_pages) {
            run(find_);
            return Step::waits();
        }
        are_too_many_ = are_too_many_ || !is_last;
        deletes_ = {pool_array<DeleteCounters>(pool(), most_deletes), most_deletes};
        if (deletes_.data() == nullptr) {
            return Step::answered(NGX_HTTP_INTERNAL_SERVER_ERROR);
        }
        counters_->begin();
        stage_ = Stage::deleting;
        return delete_more();
    }

    /// After a failure no further portion is begun.
    Step delete_more() {
        bool is_running = false;
        for (DeleteCounters &one : deletes_) {
            if (one.is_busy() && one.goes_on()) {
                run(one);
                is_running = true;
            } else if (failed_ == nullptr && !one.failure().empty()) {
                failed_ = &one;
            }
        }
        for (DeleteCounters &one : deletes_) {
            const auto portion =
                failed_ == nullptr && !one.is_busy() ? counters_->next() : std::nullopt;
            if (portion) {
                one.begin(*portion, owner_, request_.backend().traits().has_hash_slots);
                run(one);
                is_running = true;
            }
        }
        return is_running ? Step::waits() : tell_hosts();
    }

    /// Counters come first: a host that forgets a denial asks for it again.
    Step tell_hosts() {
        for (const DeleteCounters &one : deletes_) {
            deleted_ += one.deleted();
        }
        if (failed_ != nullptr) {
            while (const auto portion = counters_->next()) {
                for (redis_client::CounterToDelete &counter : portion->counters) {
                    counter.is_left = true;
                }
            }
            return fail(failed_->error(pool(), names_of_left()));
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

    ApiError too_many() const {
        return {.status = NGX_HTTP_BAD_GATEWAY,
                .name = "redis",
                .description = describe(pool(), uint64_t{deleted_},
                                        " counters deleted, but hosts have registered more than ",
                                        uint64_t{CounterDeletion::most_counters},
                                        " counters: some may be left")};
    }

    /// Lists the counters that are still there, as far as there is room.
    std::string_view names_of_left() const {
        std::array<char, 512> buffer;
        rate_limit::TextWriter names(buffer);
        names << "not deleted: ";
        std::string_view separator;
        for (const redis_client::CounterToDelete &counter : counters_->counters()) {
            if (counter.is_left && names.size() < buffer.size() - 128) {
                names << separator << counter.name;
                separator = ", ";
            }
        }
        return describe(pool(),
                        std::string_view(buffer.data(), std::min(names.size(), buffer.size())));
    }

    void add_counter(std::string_view name, uint64_t shards) {
        are_too_many_ = !counters_->add(name, shards) || are_too_many_;
    }

    const redis_client::LiveStore &store() const { return request_.live_store(); }

    std::string_view author_;
    CounterOwner owner_;
    Stage stage_ = Stage::begin;
    CounterDeletion *counters_; // null if memory ran out
    FindCounters find_;
    std::span<DeleteCounters> deletes_;
    const DeleteCounters *failed_ = nullptr; // the first one
    TellHosts tell_;
    uint64_t deleted_ = 0;
    bool are_too_many_ = false;
};

} // namespace

ngx_int_t reset_key(ApiRequest &request) {
    return begin_operation<ResetKey>(request);
}

} // namespace nginx_module
